/**
 * Colours of numbers: one hue that grows steadily darker (or lighter, at night) for weights, two
 * for signed values.
 */

const tables = new Map();

export function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const inks = new Map();

/** A value of the style sheet: a colour, or the font of labels. */
export function ink(name) {
  const key = `${name} ${dark()}`;
  if (!inks.has(key))
    inks.set(key, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return inks.get(key);
}

/** 256 colours from low to high: {css, rgb, light}. `kind` is "weight" or "signed". */
export function palette(kind) {
  const key = `${kind} ${dark()}`;
  if (!tables.has(key))
    tables.set(
      key,
      Array.from({ length: 256 }, (_, i) => entry(ramp(kind, i / 255, dark()))),
    );
  return tables.get(key);
}

/** Lightness, chroma and hue at x between 0 and 1. */
function ramp(kind, x, night) {
  const [paper, full] = night ? [0.255, 0.9] : [0.975, 0.4];
  if (kind === "weight")
    return [
      paper + (full - paper) * x,
      night ? 0.008 + 0.15 * Math.sin(2.65 * x) : 0.005 + 0.165 * x,
      277,
    ];
  const size = Math.abs(2 * x - 1),
    end = night ? 0.8 : 0.52;
  return [paper + (end - paper) * size, 0.004 + 0.14 * size, x < 0.5 ? 52 : 250];
}

function entry([lightness, chroma, hue]) {
  const rgb = srgb(lightness, chroma, hue);
  return { rgb, css: `rgb(${rgb.join(" ")})`, light: lightness > 0.68 };
}

/** OKLCH to sRGB, so that equal steps look equal. */
function srgb(lightness, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180),
    b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((x) => {
    const y = Math.min(1, Math.max(0, x));
    return Math.round(255 * (y <= 0.0031308 ? 12.92 * y : 1.055 * y ** (1 / 2.4) - 0.055));
  });
}

/** The end points of a scale: 0 to the largest weight, or as far below zero as above. */
export function domain(values, kind) {
  let largest = 0;
  for (const x of values) if (Number.isFinite(x) && Math.abs(x) > largest) largest = Math.abs(x);
  largest ||= 1;
  return kind === "weight" ? [0, largest] : [-largest, largest];
}

/** Which of the 256 colours a value has; what cannot be placed has the first. */
export function shade(value, [low, high]) {
  const place = Math.round((255 * (value - low)) / (high - low));
  return Number.isNaN(place) ? 0 : Math.min(255, Math.max(0, place));
}

/** A colour of its own for each of some words: equally light and strong, neighbours far apart. */
export function tint(place) {
  const hue = (262 + 137.5 * place) % 360;
  return `rgb(${srgb(dark() ? 0.76 : 0.56, 0.125, hue).join(" ")})`;
}
