// Parts that several views draw: figures with their sentence, bars, strips of numbers.

import { element, disclosure } from "./elements.js";
import { css, inkOn, scaleOf, stepOf } from "./colours.js";
import { csvButton } from "./downloads.js";
import { decimal, extent, largest } from "./numbers.js";

/**
 * A picture with its heading, the sentence that says how to read it, and its numbers.
 *
 * @param {object} options - title, text (string or nodes), csv: {name, what, rows} or null,
 *   level of the heading (3).
 */
export function picture({ title, text, csv = null, level = 3, className = "" }, ...content) {
  return element(
    "section",
    { class: `picture ${className}` },
    element(
      "header",
      {},
      element(`h${level}`, {}, title),
      csv && csvButton(csv.name, csv.what, csv.rows),
    ),
    text && element("p", { class: "how" }, text),
    content,
  );
}

/**
 * A table of bars: {label, value, text, note} each; a signed value goes left or right of the middle.
 *
 * @param {object} options - caption (read aloud, not shown), isSigned, limit (value of a full bar).
 */
export function bars(rows, { caption, isSigned = false, limit = null, head = ["", "value"] }) {
  const full = limit ?? largest(rows.map((row) => row.value));
  return element(
    "table",
    { class: isSigned ? "bars signed" : "bars" },
    element("caption", { class: "aloud" }, caption),
    columns("label", "number", "track"),
    element(
      "thead",
      { class: "aloud" },
      element(
        "tr",
        {},
        head.map((name) => element("th", { scope: "col" }, name)),
        element("td", {}),
      ),
    ),
    element(
      "tbody",
      {},
      rows.map((row) => barRow(row, isSigned, full)),
    ),
  );
}

/** The columns of a table, each with the class that has its width. */
export function columns(...classes) {
  return element(
    "colgroup",
    {},
    classes.map((name) => element("col", { class: name })),
  );
}

function barRow({ label, value, text, note, current }, isSigned, full) {
  const share = Math.min(1, Math.abs(value) / full);
  const bar = element("span", {
    class: value < 0 ? "bar against" : "bar",
    css: { "inline-size": `${(share * (isSigned ? 50 : 100)).toFixed(2)}%` },
  });
  return element(
    "tr",
    { class: current ? "current" : null },
    element("th", { scope: "row" }, label, note && element("small", {}, note)),
    element("td", { class: "number" }, text),
    element("td", { class: "track", "aria-hidden": "true" }, bar),
  );
}

/** The first rows of a ranking as bars, all of them on demand. */
export function rankedBars(rows, options, few = 8) {
  const limit = options.limit ?? largest(rows.map((row) => row.value));
  const table = bars(rows.slice(0, few), { ...options, limit });
  if (rows.length <= few) return table;
  const all = () =>
    bars(rows.slice(few), {
      ...options,
      limit,
      caption: `${options.caption}, the others`,
    });
  return [table, disclosure(`${rows.length - few} more`, all)];
}

/** A vector as a strip of colours, with its numbers on demand. */
export function strip(values, name) {
  const [low, high] = extent(values);
  const limit = largest(values);
  const columns = Math.min(values.length, 128);
  const lines = Math.ceil(values.length / columns);
  const canvas = element("canvas", {
    width: columns,
    height: lines,
    role: "img",
    class: "strip",
    "aria-label": `${name}: ${values.length} numbers from ${decimal(low)} to ${decimal(high)}`,
  });
  canvas.style.blockSize = `${Math.min(lines * 10, 80) + 4}px`;
  const colours = scaleOf("signed");
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, lines);
  values.forEach((value, i) => paint(image.data, i, colours, stepOf(value, limit, true)));
  context.putImageData(image, 0, 0);
  const numbers = () =>
    element(
      "p",
      { class: "numbers", tabindex: "0", role: "group", "aria-label": name },
      Array.from(values, (value) => decimal(value, 3)).join("  "),
    );
  return element(
    "div",
    { class: "vector" },
    element(
      "div",
      { class: "vector-name" },
      element("span", {}, name),
      element("small", {}, `${values.length} numbers, ${decimal(low)} to ${decimal(high)}`),
    ),
    canvas,
    disclosure(["Numbers", element("span", { class: "aloud" }, ` of ${name}`)], numbers),
  );
}

/** Write the colour of a step into pixel i of an image. */
export function paint(pixels, i, colours, step) {
  pixels[i * 4] = colours[step * 3];
  pixels[i * 4 + 1] = colours[step * 3 + 1];
  pixels[i * 4 + 2] = colours[step * 3 + 2];
  pixels[i * 4 + 3] = 255;
}

/**
 * Colours from the lowest to the highest value, with both written beside them.
 *
 * @param {function(number): string} colourOf - the colour at a share (0…1) of the way.
 */
export function legend(colourOf, lowText, highText) {
  const steps = Array.from({ length: 24 }, (_, i) =>
    element("span", { css: { background: colourOf(i / 23) } }),
  );
  return element(
    "p",
    { class: "legend" },
    lowText,
    element("span", { class: "ramp", "aria-hidden": "true" }, steps),
    highText,
  );
}

/** A table of a matrix, each cell in its colour; `format` gets a value and its index. */
export function matrixTable(caption, rowNames, columnNames, matrix, format, titleOf = null) {
  const { values, limit, isSigned, masked } = matrix;
  const colours = scaleOf(isSigned ? "signed" : "amount");
  const width = columnNames.length;
  const cell = (value, i) => {
    if (masked?.[i]) return element("td", { class: "swatch" }, "masked");
    const step = stepOf(value, limit, isSigned);
    return element(
      "td",
      {
        css: { background: css(colours, step), color: inkOn(colours, step) },
        title: titleOf?.(value, i),
      },
      format(value, i),
    );
  };
  return scrolled(
    caption,
    element(
      "table",
      { class: "matrix-table" },
      element("caption", { class: "aloud" }, caption),
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          element("td", {}),
          columnNames.map((name) => element("th", { scope: "col" }, element("bdi", {}, name))),
        ),
      ),
      element(
        "tbody",
        {},
        rowNames.map((name, row) =>
          element(
            "tr",
            {},
            element("th", { scope: "row" }, element("bdi", {}, name)),
            Array.from(values.subarray(row * width, (row + 1) * width), (value, column) =>
              cell(value, row * width + column),
            ),
          ),
        ),
      ),
    ),
  );
}

/** A region that scrolls by itself, so that the page does not; the keyboard reaches it. */
export function scrolled(name, ...content) {
  const region = element(
    "div",
    { class: "scrolled", tabindex: "0", role: "group", "aria-label": name },
    content,
  );
  // A hint, where it scrolls sideways.
  const hint = () =>
    region.toggleAttribute("data-wide", region.scrollWidth > region.clientWidth + 1);
  new ResizeObserver(() => requestAnimationFrame(hint)).observe(region);
  return region;
}

/**
 * A table that scrolls by itself.
 *
 * @param {string} name - for the keyboard and the screen reader.
 * @param {string[]} head - the names of the columns.
 * @param {Array} rows - {cells, isCurrent} each; the cells are of `nameCell` or `numberCell`, or
 *   plain content.
 */
export function table(name, head, rows) {
  const cell = (content) =>
    content instanceof HTMLTableCellElement ? content : element("td", {}, content);
  const body = rows.map(({ cells, isCurrent }) =>
    element("tr", { class: isCurrent ? "current" : null }, cells.map(cell)),
  );
  const names = head.map((text) => element("th", { scope: "col" }, text));
  return scrolled(
    name,
    element(
      "table",
      { class: "plain" },
      element("thead", {}, element("tr", {}, names)),
      element("tbody", {}, body),
    ),
  );
}

/** The cell that names its row. */
export function nameCell(...content) {
  return element("th", { scope: "row" }, content);
}

export function numberCell(text) {
  return element("td", { class: "number" }, text);
}
