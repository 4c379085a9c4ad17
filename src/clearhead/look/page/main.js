/** The page of one look, from a file or from the server beside it. */

import { h } from "./dom.js";
import { recallTheme, showTrace } from "./page.js";
import { load } from "./source.js";

async function main() {
  recallTheme();
  const root = document.getElementById("look");
  try {
    showTrace(await load(), root);
  } catch (error) {
    root.replaceChildren(h("p.notice", `This page could not be drawn: ${error.message}`));
    throw error;
  }
}

main();
