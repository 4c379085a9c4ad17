/** The page of one look, in one file. */

import { h } from "./dom.js";
import { recallTheme, showTrace } from "./page.js";
import { load } from "./source.js";

function main() {
  recallTheme();
  const root = document.getElementById("look");
  try {
    showTrace(load(), root);
  } catch (error) {
    root.replaceChildren(h("p.notice", `This page could not be drawn: ${error.message}`));
    throw error;
  }
}

main();
