// Colour scales. One hue that only grows stronger for amounts; blue-green and orange, which every
// kind of colour vision tells apart, for signed numbers. Both exist for light and dark paper.

const STOPS = {
  light: {
    amount: [
      [251, 250, 247],
      [206, 229, 228],
      [124, 187, 189],
      [38, 128, 135],
      [5, 58, 68],
    ],
    signed: [
      [138, 58, 4],
      [214, 131, 65],
      [247, 219, 189],
      [251, 250, 247],
      [196, 226, 226],
      [74, 156, 161],
      [5, 78, 88],
    ],
  },
  dark: {
    amount: [
      [27, 30, 33],
      [21, 66, 73],
      [28, 113, 120],
      [79, 176, 178],
      [205, 244, 238],
    ],
    signed: [
      [255, 178, 107],
      [201, 112, 44],
      [94, 56, 31],
      [27, 30, 33],
      [22, 76, 83],
      [42, 142, 149],
      [140, 225, 224],
    ],
  },
};

/** The strongest colour of effects (in nats) stands for at least this much; see record.py. */
export const FAINTEST = 0.1;

const MASKED = { light: [220, 216, 205], dark: [59, 64, 69] };
const STEPS = 256;

/** Whether the page is dark now. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

const made = new Map();

/** A scale as 256 colours: Uint8ClampedArray (256 · 3), "amount" for 0…1 or "signed" for −1…1. */
export function scaleOf(name) {
  const theme = isDark() ? "dark" : "light";
  const key = `${theme}.${name}`;
  if (!made.has(key)) made.set(key, interpolated(STOPS[theme][name]));
  return made.get(key);
}

function interpolated(stops) {
  const colours = new Uint8ClampedArray(STEPS * 3);
  for (let step = 0; step < STEPS; step++) {
    const along = (step / (STEPS - 1)) * (stops.length - 1);
    const before = Math.min(Math.floor(along), stops.length - 2);
    for (let channel = 0; channel < 3; channel++) {
      const [from, to] = [stops[before][channel], stops[before + 1][channel]];
      colours[step * 3 + channel] = from + (to - from) * (along - before);
    }
  }
  return colours;
}

/**
 * The step (0…255) of a value in a scale.
 *
 * Amounts go through a square root, so that small weights can be seen.
 */
export function stepOf(value, largestValue, isSigned) {
  const share = Math.max(-1, Math.min(1, value / largestValue));
  const along = isSigned ? (share + 1) / 2 : Math.sqrt(Math.max(0, share));
  return Math.round(along * (STEPS - 1));
}

/** The colour of a masked cell, as a scale of one step. */
export function maskedColour() {
  return MASKED[isDark() ? "dark" : "light"];
}

export function css(scale, step) {
  return `rgb(${scale[step * 3]} ${scale[step * 3 + 1]} ${scale[step * 3 + 2]})`;
}

/** Black or white, whichever can be read on a colour of the scale. */
export function inkOn(scale, step) {
  const [red, green, blue] = [0, 1, 2].map((channel) => {
    const part = scale[step * 3 + channel] / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000" : "#fff";
}

/** A background for a word: transparent for 0, and never so strong that the word is unreadable. */
export function tint(value, largestValue, isSigned) {
  const share = Math.max(-1, Math.min(1, value / largestValue));
  const strength = Math.sqrt(Math.abs(share));
  if (strength < 0.03 || (!isSigned && share < 0)) return "";
  const colour = isDark()
    ? share < 0
      ? "217 127 56"
      : "52 158 164"
    : share < 0
      ? "226 140 72"
      : "44 148 155";
  return `rgb(${colour} / ${(strength * (isDark() ? 0.58 : 0.62)).toFixed(2)})`;
}

/** Call back when the page turns light or dark. */
export function onTheme(callback) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback);
}
