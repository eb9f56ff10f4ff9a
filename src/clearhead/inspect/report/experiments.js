// Experiments: the logit lens, knockout of single links, a source without positions, and patching
// between two sentences.

import { element, plain, quoted } from "./elements.js";
import { matrixLegend, matrixNumber, usualLimit } from "./attention.js";
import { matrixTable, picture } from "./charts.js";
import { FAINTEST } from "./colours.js";
import { matrixRows } from "./downloads.js";
import { decimal, percent } from "./numbers.js";

/** The view "Experiments". */
export async function experimentsView(context) {
  const { item } = context;
  const missing = [
    !item.links && "The knockout of links needs a sentence with fewer words. ",
    !item.patches.length &&
      "Patching between two sentences needs a report with another sentence of as many tokens.",
  ];
  return element(
    "div",
    {},
    await lens(context),
    item.links && (await links(context)),
    item.unordered && (await unordered(context)),
    item.patches.length > 0 && (await patches(context)),
    item.target && element("p", { class: "how" }, missing),
  );
}

/** "embeddings", then the layers. */
function layerNames(count) {
  return Array.from({ length: count }, (_, layer) => (layer ? `layer ${layer}` : "embeddings"));
}

async function lens({ data, item }) {
  const { values } = await data.array(item.lens.probabilities);
  const best = item.lens.best.flat();
  const layers = layerNames(item.lens.best.length);
  const { pieces } = item.outputs;
  const reads = item.target?.pieces;
  const small = (text) => element("small", {}, text);
  const how = reads
    ? "decoder as if it were the last one: normalised and projected to the vocabulary. If embeddings and output share their weights, the first row repeats what is read"
    : "encoder as if it were the last one: normalised, pooled and projected to the labels";
  const row = (value, i) => {
    const [layer, place] = [Math.floor(i / pieces.length), i % pieces.length];
    return [layers[layer], reads?.[place], pieces[place], best[i], value];
  };
  const head = ["layer", "reads", "predicts", "best output", "probability"];
  const matrix = { values, limit: 1, isSigned: false, unit: "share" };
  return picture(
    {
      title: "Logit lens",
      text: `A row treats the output of a layer of the ${how}. A cell has the most probable output there, the last row that of the model. Lower layers were not trained to be read in this way: an output that appears early is evidence, one that does not appear is none.`,
      csv: {
        name: "logit-lens",
        what: "the logit lens",
        rows: () => [head, ...Array.from(values, row)],
      },
    },
    matrixTable(
      "Logit lens",
      layers,
      pieces.map((piece, place) => [
        reads && [small("reads "), plain(reads[place]), element("br"), small("predicts ")],
        plain(piece),
      ]),
      matrix,
      (value, i) => [plain(best[i]), element("span", { class: "aloud" }, `, ${percent(value)}`)],
      percent,
    ),
    matrixLegend(matrix),
  );
}

async function links({ data, item }) {
  const { values } = await data.array(item.links);
  const [rows, columns] = [item.outputs, item.source].map(({ words }) => words.map(([text]) => text));
  const limit = Math.max(FAINTEST, usualLimit(values, columns.length));
  return mapOf(
    "Knockout of single links",
    "How much the log-probability of an output word (row) falls when the positions that predict it may not attend to a source word (column), in the cross-attention of all layers. A positive number is a fall: the link helped. All other links stay, so what the encoder has mixed into other words still arrives; the numbers do not add up.",
    rows,
    columns,
    { values, limit, isSigned: true, nats: true },
  );
}

async function unordered({ data, item }) {
  const { text, log_probability, moved } = item.unordered;
  const { shape, values } = await data.array(moved);
  const [layers, heads] = shape;
  const numbered = (name, count) => Array.from({ length: count }, (_, i) => `${name} ${i + 1}`);
  return mapOf(
    "Without positions",
    [
      "No positions are added to the source here, so the encoder reads it as a set. The model then gives ",
      quoted(text),
      `; the log-probability of the output above is ${decimal(log_probability)}, and ${decimal(item.score.log_probability)} with positions. A cell says how much of the attention of an encoder layer (row) and head (column) then moves elsewhere, in the mean of all rows: a head with a high number goes by position, a head with a low number by content.`,
    ],
    numbered("layer", layers),
    numbered("head", heads),
    { values, limit: 1, isSigned: false, unit: "share" },
  );
}

async function patches({ data, report, item, state, go, key }) {
  const chosen = item.patches[state.other - 1] ?? item.patches[0];
  const from = ({ sentence }) =>
    report.items.find((each) => each.sentence === sentence && each.model === item.model);
  const other = from(chosen);
  const { shape, values } = await data.array(chosen.values);
  const [before, whole] = [chosen.unpatched, other.score.log_probability];
  const pieces = item.source.pieces.map((piece, position) => {
    const theirs = other.source.pieces[position];
    return piece === theirs ? piece : `${piece} ← ${theirs}`;
  });
  const option = (patch, i) =>
    element("option", { value: i + 1, selected: patch === chosen }, from(patch).source.text);
  const choose = (event) => go({ other: Number(event.target.value) });
  const choice = { "data-key": key("other"), on: { change: choose } };
  return mapOf(
    "Patching",
    [
      "This sentence is run again with one value of another sentence: the output of an encoder layer (row) at a position (column). A cell says by how much the log-probability of the other sentence’s output rises. Of ",
      quoted(other.target.text),
      ` it is ${decimal(before)} without a patch and ${decimal(whole)} if the whole source is the other one; the strongest colour is this difference. No single patch shows what is spread over several positions.`,
    ],
    layerNames(shape[0]),
    pieces,
    {
      values: values.map((value) => value - before),
      limit: Math.max(FAINTEST, Math.abs(whole - before)),
      isSigned: true,
    },
    element("label", {}, "Values from ", element("select", choice, item.patches.map(option))),
  );
}

/** A matrix as a table with its legend. */
function mapOf(title, text, rows, columns, matrix, ...controls) {
  const csv = {
    name: title.toLowerCase().replaceAll(" ", "-"),
    what: `the numbers of “${title}”`,
    rows: () => matrixRows("", rows, columns, matrix.values),
  };
  return picture(
    { title, text, csv },
    controls.length > 0 && element("div", { class: "controls" }, controls),
    matrixTable(title, rows, columns, matrix, (value) => matrixNumber(matrix, value)),
    matrixLegend(matrix),
  );
}
