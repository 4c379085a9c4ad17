/** Elements made from text, never from markup: whatever a token says, it stays text. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element, as in h("p.hint", { title }, "text"): its tag and classes, what else it has, and
 * what is in it. `on…` properties are listeners, others attributes; false and null leave an
 * attribute or a child out.
 */
export function h(tag, ...rest) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (name === "button") element.type = "button";
  return filled(element, classes, rest);
}

/** The same for SVG. */
export function svg(tag, ...rest) {
  const [name, ...classes] = tag.split(".");
  return filled(document.createElementNS(SVG, name), classes, rest);
}

function filled(element, classes, rest) {
  const has = rest[0] && Object.getPrototypeOf(rest[0]) === Object.prototype;
  const [attributes, ...children] = has ? rest : [{}, ...rest];
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else if (value === true) element.setAttribute(name, "");
    else if (!missing(value)) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => !missing(child)));
  return element;
}

function missing(value) {
  return value === null || value === undefined || value === false;
}

/** Text of unknown direction, kept from reordering what stands beside it. */
export function bdi(text) {
  return h("bdi", text);
}

/** A row of buttons of which one is pressed. */
export function choice(label, options, chosen, pick) {
  const buttons = options.map(([value, text, title]) =>
    h(
      "button.pill",
      { title, "aria-pressed": String(value === chosen), onclick: () => pick(value) },
      text,
    ),
  );
  return h("div.choice", { role: "group", "aria-label": label }, h("span.label", label), buttons);
}

/** A drop-down list with its label. */
export function select(label, options, chosen, pick) {
  const list = h(
    "select",
    { onchange: (event) => pick(event.target.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
  return h("label.field", h("span.label", label), list);
}

/** A box to tick. */
export function tick(text, checked, pick) {
  return h(
    "label.tick",
    h("input", { type: "checkbox", checked, onchange: (event) => pick(event.target.checked) }),
    text,
  );
}

/** A slider with what it stands at; `moveTo` follows a change from elsewhere. */
export function slider(label, { min, max, step = 1, value, text }, pick) {
  const shown = h("output", text(value));
  const range = h("input", {
    type: "range",
    min,
    max,
    step,
    value,
    "aria-label": label,
    oninput: (event) => {
      shown.textContent = text(Number(event.target.value));
      pick(Number(event.target.value));
    },
  });
  const element = h("label.field.slider", h("span.label", label), range, shown);
  element.moveTo = (place) => {
    range.value = place;
    shown.textContent = text(place);
  };
  return element;
}

/** Scrolls a row of links so that the one for this page is in sight. */
export function bringIntoSight(nav) {
  const here = nav.querySelector("[aria-current]")?.getBoundingClientRect();
  if (!here) return;
  const row = nav.getBoundingClientRect();
  nav.scrollLeft += here.left - row.left - (row.width - here.width) / 2;
}

/** A number as people read it: four digits after the point where they matter, a true minus. */
export function number(x, digits = 4) {
  if (x === -Infinity) return "−∞";
  if (!Number.isFinite(x)) return String(x);
  const small = x !== 0 && Math.abs(x) < 10 ** -digits;
  const text = small
    ? x.toExponential(1)
    : Math.abs(x) >= 1e5
      ? x.toExponential(3)
      : x.toFixed(digits);
  return text.replace(/^-/, "−").replace("e-", "e−").replace("e+", "e");
}

/** A weight between 0 and 1 in the space of a cell. */
export function weight(x) {
  if (x === 0) return "0";
  if (x >= 0.995) return x === 1 ? "1" : "1.0";
  return x < 0.005 ? "·" : x.toFixed(2).slice(1);
}

export function percent(x) {
  const whole = x >= 0.0995 && (x < 0.9945 || x >= 0.9995);
  if (x >= 0.0005) return `${(100 * x).toFixed(whole ? 0 : 1)} %`;
  return x >= 5e-5 ? `${(100 * x).toPrecision(1)} %` : x ? "≈ 0 %" : "0 %";
}
