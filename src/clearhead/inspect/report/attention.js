// The matrix that the page shows: a measure of attribution, or attention weights of some heads.

import { legend } from "./charts.js";
import { css, scaleOf, tint } from "./colours.js";
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

/** The measure that the state names, else the one to be believed, else removal, else the first. */
export function measureOf(state, model, item) {
  const named = (name) => item.measures.find((measure) => measure.name === name);
  return (
    named(state.measure) ?? named(model.belief?.believed[0]) ?? named("removal") ?? item.measures[0]
  );
}

/** The choice of the state, within what this item has: {show, kind, layer, head, measure}. */
export function choiceOf(state, model, item) {
  const kinds = kindsOf(item);
  const measure = measureOf(state, model, item);
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
 * place later. `limit` is the value of the strongest colour.
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
      limit: usualLimit(matrix, source.length),
      unit: "number",
      title: choice.measure.title,
      meaning: inUnits(model, choice.measure.meaning),
      name: choice.measure.name,
    };
  }
  const { kind, layer, head } = choice;
  const [values, width] = await weightsOf(data, item.attention[kind], layer, head);
  const rows = kind === "encoder" ? source : output;
  const columns = kind === "decoder" ? [startOf(item), ...shifted(output, width)] : source;
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
    title: `${KINDS[kind].title}, layer ${layer}, ${which}`,
    meaning: inUnits(model, KINDS[kind].meaning),
    name: `${kind}-layer-${layer}-${head ? `head-${head}` : "mean"}`,
  };
}

/** The upper quartile of the rows' largest values: a few extreme rows must not pale the others. */
function usualLimit(values, width) {
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
function shifted(units, width) {
  return units.map(({ text, positions }) => ({
    text,
    positions: positions.map((position) => position + 1).filter((position) => position < width),
  }));
}

/** What is known of a head's role: "previous token 0.83"; "" if nothing. */
export function rolesOf(model, name) {
  const roles = model.roles?.[name] ?? [];
  return roles.map(([role, score]) => `${role} ${score.toFixed(2)}`).join(", ");
}

/** What the colours of a matrix mean. */
export function matrixLegend(matrix) {
  const scale = scaleOf(matrix.isSigned ? "signed" : "amount");
  return legend((along) => css(scale, Math.round(along * 255)), ...endsOf(matrix));
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
  return matrix.isSigned
    ? [less + signed(-limit, digits), more + signed(limit, digits)]
    : ["0", more + decimal(limit, digits)];
}

/** A value of a matrix as a reader sees it. */
export function matrixNumber(matrix, value) {
  if (matrix.unit === "share") return percent(value);
  return (matrix.isSigned ? signed : decimal)(value, digitsFor(matrix.limit));
}
