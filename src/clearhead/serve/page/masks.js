// Where an attention looks, as a table whose cells a click masks.

import { headNamed, KINDS, matrixOf } from "./report/attention.js";
import { scrolled } from "./report/charts.js";
import { css, inkOn, scaleOf, stepOf } from "./report/colours.js";
import { arrowKeys, element, plain } from "./report/elements.js";
import { percent } from "./report/numbers.js";
import { action, choice } from "./controls.js";
import { kindOf, shownAttention } from "./diagram.js";
import { attentionTitle, cellEntry, editsOf, toggled } from "./edits.js";

const MOST_CELLS = 2500;

/**
 * The attention that is chosen in the diagram.
 *
 * @param {object} context - `answer`, `state`, `go`; `data`, `item` and `model` of the report, or null.
 */
export async function attentionTable(context) {
  const { answer, state, data, item, model, go } = context;
  const { name, head, count } = shownAttention(context);
  const kind = kindOf(name);
  const { layer } = headNamed(name);
  const upTo = Array.from({ length: count }, (_, i) => ({
    value: `${name}.${i + 1}`,
    text: `head ${i + 1}`,
  }));
  const names = Object.keys(answer.attentions).map((each) => ({
    value: each,
    text: attentionTitle(each).replace(", all heads", ""),
  }));
  const current = head ? `${name}.${head}` : name;
  const controls = element(
    "div",
    { class: "controls" },
    choice("look", "Attention", names, name, (look) => go({ look })),
    choice("look-head", "Head", [{ value: name, text: "mean of all" }, ...upTo], current, (look) =>
      go({ look }),
    ),
  );
  const parts = [controls];
  if (!item) parts.push(element("p", { class: "how" }, "The weights are being computed …"));
  else {
    const [layers, heads] = item.attention[kind].shape;
    const chosen = { show: kind, kind, layer, head, layers, heads };
    const matrix = await matrixOf(data, model, item, chosen, true);
    if (matrix.values.length > MOST_CELLS)
      parts.push(element("p", { class: "how" }, "The sentence is too long for single cells."));
    else parts.push(cells(context, matrix, current));
  }
  return element(
    "div",
    { class: "attention-table" },
    element("h3", {}, KINDS[kind].title, element("small", {}, `layer ${layer}`)),
    element(
      "p",
      { class: "how" },
      `${KINDS[kind].meaning} A click on a cell masks it: ${head ? "this head" : "all heads of this layer"} may no longer look there.`,
    ),
    parts,
  );
}

function cells({ state, go }, matrix, current) {
  const cut = new Set(editsOf(state).cells.map(({ text }) => text));
  const whole = current.split(".").slice(0, 3).join(".");
  const colours = scaleOf("amount");
  const width = matrix.columns.length;
  const cell = (row, column) => {
    const value = matrix.values[row * width + column];
    if (matrix.masked?.[row * width + column]) return element("td", { class: "swatch" }, "later");
    const [query, key] = [matrix.rows[row].positions, matrix.columns[column].positions];
    const entry = cellEntry(current, query, key);
    const isCut = cut.has(entry) || cut.has(cellEntry(whole, query, key));
    const shade = stepOf(value, 1, false);
    const style = { background: css(colours, shade), color: inkOn(colours, shade) };
    const number = Math.round(100 * value);
    return element(
      "td",
      {},
      action(
        `cell.${row}.${column}`,
        () => go({ cut: toggled(state.cut, cut.has(entry) ? entry : isCut ? cellEntry(whole, query, key) : entry, ";") }),
        {
          class: isCut ? "cell swatch" : "cell",
          "aria-pressed": String(isCut),
          "aria-label": `${matrix.rows[row].text} looks at ${matrix.columns[column].text}: ${percent(value)}${isCut ? ", masked" : ""}`,
          title: `${matrix.rows[row].text} → ${matrix.columns[column].text}: ${percent(value)}`,
          css: isCut ? {} : style,
        },
        isCut ? "×" : number,
      ),
    );
  };
  const table = element(
    "table",
    { class: "cells" },
    element("caption", { class: "aloud" }, "Weights in percent; each cell can be masked"),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        element("td", {}),
        matrix.columns.map(({ text }) => element("th", { scope: "col" }, plain(text))),
      ),
    ),
    element(
      "tbody",
      {},
      matrix.rows.map(({ text }, row) =>
        element(
          "tr",
          {},
          element("th", { scope: "row" }, plain(text)),
          matrix.columns.map((_, column) => cell(row, column)),
        ),
      ),
    ),
  );
  arrowKeys(table);
  return [
    scrolled(`Weights: ${matrix.title}`, table),
    element(
      "p",
      { class: "how small" },
      matrix.reads
        ? "A row is a word that is predicted, a column is what the decoder looks at; percent of the attention."
        : "A row is a word that looks, a column is what it looks at; percent of the attention.",
    ),
  ];
}
