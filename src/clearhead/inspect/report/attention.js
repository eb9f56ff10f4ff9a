// The matrix that the page shows: a measure of attribution, or attention weights of some heads.

import { legend } from "./charts.js";
import { css, FAINTEST, scaleOf, tint } from "./colours.js";
import { element, quoted } from "./elements.js";
import { counted, decimal, digitsFor, largest, percent, signed } from "./numbers.js";
import { inUnits, joinedMatrix, unitsOf } from "./units.js";

/** The kinds of attention, in the order of the paper's figure 1. */
export const KINDS = {
  encoder: {
    title: "Encoder self-attention",
    short: "encoder",
    meaning: "Each source word looks at all source words.",
    layers: "encoder_layers",
    head: (layer, head) => `encoder.${layer}.self.${head}`,
  },
  decoder: {
    title: "Decoder self-attention",
    short: "decoder",
    meaning: "To predict a word, the decoder looks at the words before it.",
    layers: "decoder_layers",
    head: (layer, head) => `decoder.${layer}.self.${head}`,
  },
  cross: {
    title: "Cross-attention",
    short: "cross",
    meaning: "To predict a word, the decoder looks at the source words.",
    layers: "decoder_layers",
    head: (layer, head) => `decoder.${layer}.cross.${head}`,
  },
};

/** The kinds of attention that an item has. */
export function kindsOf(item) {
  return Object.keys(KINDS).filter((kind) => item.attention[kind]);
}

/** The kind, layer and head of a name such as "decoder.2.cross.5". */
export function headNamed(name) {
  const [stack, layer, attention, head] = name.split(".");
  const kind = attention === "cross" ? "cross" : stack;
  return { kind, layer: Number(layer), head: Number(head) };
}

/** The name of a head in words. */
export function headTitle(name) {
  const { kind, layer, head } = headNamed(name);
  return KINDS[kind] ? `${KINDS[kind].short} ${layer}, head ${head}` : name;
}

/** The choice of the state, within what this item has: {show, kind, layer, head, measure}. */
export function choiceOf(state, item) {
  const kinds = kindsOf(item);
  const named = (name) => item.measures.find((measure) => measure.name === name);
  const measure = named(state.measure) ?? named("removal") ?? item.measures[0];
  let show = state.show;
  if (show === "measure" ? !measure : !kinds.includes(show))
    show = measure ? "measure" : kinds.at(-1);
  if (show === "measure") return { show, measure };
  const [layers, heads] = item.attention[show].shape;
  const layer = Math.min(state.layer || layers, layers);
  return { show, kind: show, layer, head: Math.min(state.head, heads), layers, heads };
}

/**
 * The matrix of a choice.
 *
 * `values` (rows, columns) are over units. `rowSide` and `columnSide` are "source" or "output"; the
 * columns of decoder self-attention are the start symbol and then the outputs, which it reads one
 * place later, but for the last one, which it does not read. `reads` has what the decoder reads at
 * each row of its attention, in which it predicts the output; otherwise it is null. `masked` has 1
 * for each cell that no query can see. `limit` is the value of the strongest colour.
 */
export async function matrixOf(data, model, item, choice, joined) {
  const source = unitsOf(item.source.pieces, item.source.words, joined);
  const output = unitsOf(item.outputs.pieces, item.outputs.words, joined);
  if (choice.show === "measure") {
    const { shape, values } = await data.array(choice.measure.values);
    const matrix = joinedMatrix(values, shape[1], output, source, choice.measure.nats);
    const isSigned = matrix.some((value) => value < 0);
    return {
      values: matrix,
      rows: output,
      columns: source,
      rowSide: "output",
      columnSide: "source",
      isSigned,
      limit: Math.max(FAINTEST, usualLimit(matrix, source.length)),
      unit: "number",
      nats: choice.measure.nats,
      reads: null,
      title: choice.measure.title,
      meaning: inUnits(model, choice.measure.meaning),
      name: choice.measure.name,
    };
  }
  const { kind, layer, head } = choice;
  const [values, width] = await weightsOf(data, item.attention[kind], layer, head);
  const rows = kind === "encoder" ? source : output;
  const { length } = item.target?.pieces ?? [];
  const read = kind === "encoder" ? [] : [startOf(item), ...shifted(output, length)];
  const columns = kind === "decoder" ? read : source;
  const which = head ? `head ${head}` : `mean of ${counted(choice.heads, "head")}`;
  return {
    values: joinedMatrix(values, width, rows, columns),
    rows,
    columns,
    rowSide: kind === "encoder" ? "source" : "output",
    columnSide: kind === "decoder" ? "output" : "source",
    isSigned: false,
    limit: 1,
    unit: "share",
    reads: kind === "encoder" ? null : output.map((_, row) => read[row].text),
    masked: kind === "decoder" ? maskedCells(rows, columns) : null,
    title: `${KINDS[kind].title}, layer ${layer}, ${which}`,
    meaning: inUnits(model, KINDS[kind].meaning),
    name: `${kind}-layer-${layer}-${head ? `head-${head}` : "mean"}`,
  };
}

/** The upper quartile of the rows' largest values: a few extreme rows must not pale the others. */
export function usualLimit(values, width) {
  const tops = [];
  for (let start = 0; start < values.length; start += width) {
    tops.push(largest(values.subarray(start, start + width)));
  }
  return tops.sort((a, b) => a - b)[Math.floor((tops.length - 1) * 0.75)] ?? 1;
}

/** The weights of a head, or the mean of all heads of a layer, and the number of keys. */
async function weightsOf(data, reference, layer, head) {
  const width = reference.shape[3];
  if (head) return [(await data.part(reference, [layer - 1, head - 1])).values, width];
  const { shape, values } = await data.part(reference, [layer - 1]);
  const size = shape[1] * shape[2];
  const mean = new Float32Array(size);
  for (let start = 0; start < values.length; start += size) {
    for (let i = 0; i < size; i++) mean[i] += values[start + i] / shape[0];
  }
  return [mean, width];
}

function startOf(item) {
  return { text: item.target.pieces[0], positions: [0] };
}

/** Outputs as the decoder reads them: one place later, the last one not at all. */
function shifted(units, length) {
  return units
    .map(({ text, positions }) => ({
      text,
      positions: positions.map((position) => position + 1).filter((position) => position < length),
    }))
    .filter(({ positions }) => positions.length);
}

/** (rows, columns) 1 where all keys of a column come after the last query of a row. */
function maskedCells(rows, columns) {
  return Uint8Array.from({ length: rows.length * columns.length }, (_, i) => {
    const [row, column] = [rows[Math.floor(i / columns.length)], columns[i % columns.length]];
    return column.positions[0] > row.positions.at(-1);
  });
}

/** The names of the rows; of the decoder's attention "what it reads → what it predicts". */
export function rowNamesOf(matrix) {
  return matrix.rows.map((unit, row) =>
    matrix.reads ? `${matrix.reads[row]} → ${unit.text}` : unit.text,
  );
}

/** The beginning of a sentence about a row. */
export function subjectOf(matrix, row) {
  const name = quoted(matrix.rows[row].text);
  if (!matrix.reads) return [name];
  return ["Reading ", quoted(matrix.reads[row]), " to predict ", name, ", the decoder"];
}

/** The numbers of the rows for a file; masked cells are empty. */
export function numbersOf(matrix) {
  return Array.from(matrix.values, (value, i) => (matrix.masked?.[i] ? "" : value));
}

/** What is known of a head's role: "previous token 0.83"; "" if nothing. */
export function rolesOf(model, name) {
  const roles = model.roles?.[name] ?? [];
  return roles.map(([role, score]) => `${role} ${score.toFixed(2)}`).join(", ");
}

/** What the colours of a matrix mean. */
export function matrixLegend(matrix) {
  const scale = scaleOf(matrix.isSigned ? "signed" : "amount");
  const made = legend((along) => css(scale, Math.round(along * 255)), ...endsOf(matrix));
  if (matrix.masked) made.append(maskedLegend());
  return made;
}

/** What masked cells look like. */
export function maskedLegend() {
  const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
  return element("span", {}, swatch, " masked: it comes later, so the decoder cannot see it");
}

/** What the colours behind words mean. */
export function tintLegend(matrix) {
  const valueAt = (along) => matrix.limit * (matrix.isSigned ? 2 * along - 1 : along ** 2);
  return legend((along) => tint(valueAt(along), matrix.limit, matrix.isSigned), ...endsOf(matrix));
}

function endsOf(matrix) {
  if (matrix.unit === "share") return [percent(0), percent(1)];
  const [limit, digits] = [matrix.limit, digitsFor(matrix.limit)];
  const [less, more] = largest(matrix.values) > limit ? ["≤ ", "≥ "] : ["", ""];
  const [rises, falls] = matrix.nats ? ["it hinders: ", ": it helps"] : ["", ""];
  return matrix.isSigned
    ? [rises + less + signed(-limit, digits), more + signed(limit, digits) + falls]
    : ["0", more + decimal(limit, digits) + falls];
}

/** A value of a matrix as a reader sees it. */
export function matrixNumber(matrix, value) {
  if (matrix.unit === "share") return percent(value);
  return (matrix.isSigned ? signed : decimal)(value, digitsFor(matrix.limit));
}
