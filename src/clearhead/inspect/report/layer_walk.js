// The walk through one layer for one token: each step of the paper, its formula, and the numbers.

import { arrowKeys, directionOf, element, plain, quoted } from "./elements.js";
import { KINDS, rolesOf } from "./attention.js";
import { largest, counted, decimal, percent, ranking } from "./numbers.js";
import { columns, legend, picture, strip } from "./charts.js";
import { css, scaleOf } from "./colours.js";
import {
  feedForwardFormula,
  headFormula,
  inputFormula,
  normFormula,
  outputFormula,
  projectionFormula,
  residualFormula,
  scoreFormula,
  weightFormula,
} from "./formulas.js";

/** The view "Inside a layer". */
export async function layerWalkView(context) {
  const walk = walkOf(context);
  const steps = (await allSteps(walk)).map((content) => element("li", { tabindex: "-1" }, content));
  const predicted = walk.stack === "decoder" && walk.item.outputs.pieces[walk.token];
  const colourOf = (along) => css(scaleOf("signed"), Math.round(along * 255));
  return picture(
    {
      title: [
        `Inside ${walk.stack} layer ${walk.layer}: `,
        predicted ? ["reads ", quoted(walk.piece), ", predicts "] : quoted(walk.piece),
        predicted && quoted(predicted),
      ],
      text: [
        walk.stack === "encoder"
          ? "What this layer does with one source token, step by step, with the numbers of this sentence. "
          : "What this layer does at one place of the decoder. ",
        walk.isPre
          ? "This model normalises the input of each part (pre-norm)."
          : "This model normalises after each sum, as the paper does (post-norm).",
      ],
      csv: {
        name: `${walk.stack}-layer-${walk.layer}-token-${walk.token + 1}`,
        what: "the numbers of all steps",
        rows: () => walk.rows,
      },
      className: "walk",
    },
    map(steps),
    legend(colourOf, "negative", "positive, each strip up to its own largest number"),
    element("ol", { class: "steps" }, steps),
  );
}

/** The steps by name; choosing one goes to it. */
function map(steps) {
  const names = steps.map((step, i) =>
    element(
      "button",
      {
        type: "button",
        on: {
          click: () => {
            step.scrollIntoView();
            step.focus({ preventScroll: true });
          },
        },
      },
      element("small", {}, `${i + 1} `),
      step.firstChild.textContent,
    ),
  );
  const toolbar = element("div", { class: "map", role: "toolbar", "aria-label": "Steps" }, names);
  arrowKeys(toolbar);
  return toolbar;
}

/** What is walked through: stack, layer, token and head, within what the item has. */
function walkOf({ data, model, item, state }) {
  const stack = state.stack === "decoder" && item.target ? "decoder" : "encoder";
  const layers = model[KINDS[stack].layers];
  const layer = Math.min(state.layer || 1, layers);
  const pieces = stack === "encoder" ? item.source.pieces : item.target.pieces;
  const token = Math.min(Math.max(state.token, 1), pieces.length) - 1;
  const head = Math.min(Math.max(state.head, 1), model.heads) - 1;
  const at = async (name, ...indices) => (await data.part(item.walk[name], indices)).values;
  return {
    data,
    model,
    item,
    stack,
    layers,
    layer,
    pieces,
    token,
    head,
    at,
    name: `${stack}.${layer}`,
    piece: pieces[token],
    isPre: model.norm === "pre",
    // What a sub-layer reads.
    read: model.norm === "pre" ? "x̂" : "x",
    rows: [["vector", "numbers"]],
  };
}

/** A vector as a strip, kept for the CSV file. */
function kept(walk, values, name) {
  walk.rows.push([name, ...values]);
  return strip(values, name);
}

async function allSteps(walk) {
  const steps = [await inputStep(walk)];
  const { name, stack } = walk;
  const attention = [
    { name: `${name}.self`, before: `${name}.input`, keys: walk.pieces, kind: stack },
  ];
  if (stack === "decoder") {
    attention.push({
      name: `${name}.cross`,
      before: endOf(walk, `${name}.self`),
      keys: walk.item.source.pieces,
      kind: "cross",
    });
  }
  for (const part of attention) steps.push(...(await attentionSteps(walk, part)));
  const last = attention.at(-1).name;
  steps.push(...(await feedForwardSteps(walk, endOf(walk, last))));
  return steps;
}

/** The name of the vectors with which a sub-layer ends. */
function endOf({ isPre }, name) {
  return isPre ? `${name}.residuals` : `${name}.norms`;
}

/** The name of the sum after a sub-layer; with post-norm it is normalised next. */
function sumName(sublayer, { isPre, read }) {
  return `${isPre ? "" : "y = "}x + ${sublayer}(${read})`;
}

function step(title, text, ...content) {
  return [element("h4", {}, title), element("p", {}, text), content];
}

async function inputStep(walk) {
  const { at, token, layer, layers, stack, item, model } = walk;
  const input = await at(`${stack}.${layer}.input`, token);
  if (layer > 1) {
    return step(
      "The input",
      `Layer ${layer} of ${layers} starts from the vector that layer ${layer - 1} made of this token.`,
      kept(walk, input, "x"),
    );
  }
  const side = stack === "encoder" ? "source" : "target";
  const isFrames = stack === "encoder" && model.unit === "frame";
  const [embedding, position, convolution] = await Promise.all(
    ["embeddings", "positions", "convolutions"].map(
      (name) => item.walk[`${side}.${name}`] && at(`${side}.${name}`, token),
    ),
  );
  const parts = [
    isFrames
      ? "The numbers of the frame, projected to the width of the model"
      : model.input.spelled
        ? "The embedding of the word plus the mean embedding of its character n-grams"
        : "The embedding of the token (section 3.4 of the paper)",
    model.input.positions && "plus the encoding of its position (section 3.5)",
    model.input.norm && "normalised",
    convolution && "plus convolutions over its neighbours",
  ].filter(Boolean);
  const isSum = parts.length > 1 && !model.input.norm;
  return step(
    "The input",
    `${parts.join(", ")}.`,
    inputFormula(isFrames, model.input, Boolean(convolution)),
    embedding && kept(walk, embedding, isFrames ? "Projection" : "Embedding"),
    model.input.positions && position && kept(walk, position, "Position"),
    convolution && kept(walk, convolution, "Convolutions"),
    kept(walk, input, isSum ? "x, their sum" : "x"),
  );
}

/** A norm: of the vector x before a sub-layer, or of a sum. */
async function normStep(walk, from, to, of = "x") {
  const { at, token, model } = walk;
  const [before, after] = await Promise.all([at(from, token), at(to, token)]);
  const mean = before.reduce((sum, value) => sum + value, 0) / before.length;
  const form = model.norm_form;
  // That form has the unbiased standard deviation.
  const count = before.length - (form === "std_plus_epsilon" ? 1 : 0);
  const variance = before.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count;
  return step(
    "Layer norm",
    `The vector is shifted to mean 0, divided by its standard deviation, and scaled with learned numbers. Here μ = ${decimal(mean)} and σ = ${decimal(Math.sqrt(variance))}.`,
    normFormula(of, form),
    kept(walk, after, walk.isPre ? "x̂ = LayerNorm(x)" : `LayerNorm(${of})`),
  );
}

async function attentionSteps(walk, part) {
  const { at, token, head, model, isPre } = walk;
  const { name, before, keys, kind } = part;
  const isCross = kind === "cross";
  const [query, allKeys, allValues, scores, headOutput, output, residual] = await Promise.all([
    at(`${name}.queries`, head, token),
    at(`${name}.keys`, head),
    at(`${name}.values`, head),
    at(`${name}.scores`, head, token),
    at(`${name}.head_outputs`, head, token),
    at(`${name}.output`, token),
    at(`${name}.residuals`, token),
  ]);
  const visible = kind === "decoder" ? token + 1 : keys.length;
  const exact = softmax(scores.subarray(0, visible));
  const best = ranking(exact)[0];
  const vector = (values, i) =>
    values.subarray(i * (values.length / keys.length), (i + 1) * (values.length / keys.length));
  const roles = rolesOf(model, KINDS[kind].head(walk.layer, head + 1));
  const title = isCross ? "Cross-attention" : "Self-attention";
  const steps = [];
  if (isPre) steps.push(await normStep(walk, before, `${name}.norms`));
  const keepScores = () => {
    const what = title.toLowerCase();
    walk.rows.push(
      [`tokens of the ${what}`, ...keys.slice(0, visible)],
      [`scores of the ${what}`, ...scores.subarray(0, visible)],
      [`weights of the ${what}`, ...exact],
    );
    return scoreTable(keys.slice(0, visible), scores, exact);
  };
  steps.push(
    step(
      `${title}: query, keys, values`,
      [
        `Head ${head + 1} of ${model.heads} projects the vector to a query of ${model.d_k} numbers. `,
        isCross
          ? "Keys and values come from the encoder's output, one pair for each source token. "
          : "Each token it may look at offers a key and a value. ",
        roles && `This head acts on: ${roles}.`,
      ],
      projectionFormula(walk.read, isCross ? "z" : walk.read),
      kept(walk, query, "query"),
      kept(walk, vector(allKeys, best), `key of ${keys[best]}`),
      kept(walk, vector(allValues, best), `value of ${keys[best]}`),
    ),
    step(
      `${title}: scores and weights`,
      [
        "The query is multiplied with each key and divided by ",
        `√${model.d_k}; the softmax turns the scores into weights of sum 1. `,
        kind === "decoder" && visible < keys.length
          ? `The ${counted(keys.length - visible, "later token")} are masked. `
          : "",
        "The largest: ",
        plain(keys[best]),
        ` with score ${decimal(scores[best])} and weight ${percent(exact[best])}.`,
      ],
      scoreFormula(),
      weightFormula(),
      keepScores(),
    ),
    step(
      `${title}: output of the head`,
      `The values, added with these weights: ${percent(exact[best])} of the value of the strongest token, and so on.`,
      headFormula(),
      kept(walk, headOutput, `output of head ${head + 1}`),
    ),
    step(
      `${title}: all heads together`,
      `The outputs of all ${model.heads} heads are put side by side and multiplied with one matrix.`,
      outputFormula(),
      kept(walk, output, "output of the attention"),
    ),
    step(
      "Add what came before",
      "The output is added to the vector that went in (the residual connection).",
      residualFormula("MultiHead", walk.read),
      kept(walk, residual, sumName("MultiHead", walk)),
    ),
  );
  if (!isPre) steps.push(await normStep(walk, `${name}.residuals`, `${name}.norms`, "y"));
  return steps;
}

function softmax(scores) {
  const top = largestOf(scores);
  const powers = Float32Array.from(scores, (score) => Math.exp(score - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

function largestOf(values) {
  return values.reduce((top, value) => Math.max(top, value), -Infinity);
}

/** Score and weight of each key, in the order of the text; of long texts the strongest. */
function scoreTable(keys, scores, weights) {
  const few = 16;
  const best = new Set(ranking(weights).slice(0, few));
  const shownKeys = keys.map((_, i) => i).filter((i) => best.has(i));
  const limit = largest(scores.subarray(0, keys.length));
  const bar = (value, full, isSigned) =>
    element(
      "td",
      { class: "track", "aria-hidden": "true" },
      element("span", {
        class: value < 0 ? "bar against" : "bar",
        css: { "inline-size": `${((Math.abs(value) / full) * (isSigned ? 50 : 100)).toFixed(2)}%` },
      }),
    );
  const rest = keys.length - shownKeys.length;
  const restWeight = weights.reduce((sum, weight, i) => (best.has(i) ? sum : sum + weight), 0);
  return element(
    "table",
    { class: "bars scores" },
    element("caption", { class: "aloud" }, "Scores and weights"),
    columns("label", "number", "track", "number", "track"),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        element("th", { scope: "col" }, "token"),
        element("th", { scope: "col", colspan: "2" }, "score"),
        element("th", { scope: "col", colspan: "2" }, "weight"),
      ),
    ),
    element(
      "tbody",
      {},
      shownKeys.map((i) =>
        element(
          "tr",
          {},
          element("th", { scope: "row" }, plain(keys[i])),
          element("td", { class: "number" }, decimal(scores[i])),
          signedTrack(bar(scores[i], limit, true)),
          element("td", { class: "number" }, percent(weights[i])),
          bar(weights[i], 1, false),
        ),
      ),
      rest > 0 &&
        element(
          "tr",
          {},
          element("th", { scope: "row" }, counted(rest, "other")),
          element("td", {}),
          element("td", {}),
          element("td", { class: "number" }, percent(restWeight)),
          element("td", {}),
        ),
    ),
  );
}

function signedTrack(track) {
  track.classList.add("middle");
  return track;
}

async function feedForwardSteps(walk, before) {
  const { at, token, name, model, isPre } = walk;
  const [hidden, output, residual, end] = await Promise.all([
    at(`${name}.feed_forward.hidden_units`, token),
    at(`${name}.feed_forward.output`, token),
    at(`${name}.feed_forward.residuals`, token),
    at(`${name}.output`, token),
  ]);
  const active = hidden.filter((value) => value > 0).length;
  const strongest = ranking(hidden)
    .slice(0, 3)
    .map((unit) => `${unit + 1} (${decimal(hidden[unit])})`);
  const steps = [];
  if (isPre) steps.push(await normStep(walk, before, `${name}.feed_forward.norms`));
  steps.push(
    step(
      "Feed-forward network",
      `Each vector goes through the same two matrices by itself. ${active} of ${hidden.length} hidden units are above zero here; the strongest are ${strongest.join(", ")}.`,
      feedForwardFormula(walk.read, model.activation),
      kept(walk, hidden, "hidden units"),
      kept(walk, output, "output of the network"),
    ),
    step(
      "Add what came before",
      "Again the output is added to what went in.",
      residualFormula("FFN", walk.read),
      kept(walk, residual, sumName("FFN", walk)),
    ),
  );
  if (!isPre)
    steps.push(
      await normStep(walk, `${name}.feed_forward.residuals`, `${name}.feed_forward.norms`, "y"),
    );
  steps.push(
    step(
      "The output of the layer",
      walk.layer < walk.layers
        ? `Layer ${walk.layer + 1} starts from this vector.`
        : isPre
          ? "The last layer. The final norm of the stack follows, if the model has one."
          : "The last layer.",
      kept(walk, end, "output of the layer"),
    ),
  );
  return steps;
}

/** The choices above the walk: encoder or decoder, layer, head, token. */
export function walkControls(context) {
  const { model, state, go, key } = context;
  const walk = walkOf(context);
  const pick = (name, label, values, current, change) =>
    element(
      "label",
      {},
      `${label} `,
      element(
        "select",
        { "data-key": key(name), on: { change: (event) => go(change(event.target.value)) } },
        values.map(([value, text]) =>
          element("option", { value, selected: value === current }, text),
        ),
      ),
    );
  const upTo = (count) => Array.from({ length: count }, (_, i) => [i + 1, i + 1]);
  const stacks = [["encoder", "encoder"], ...(walk.item.target ? [["decoder", "decoder"]] : [])];
  const buttons = walk.pieces.map((piece, i) =>
    element(
      "button",
      {
        type: "button",
        class: "word",
        "aria-pressed": String(i === walk.token),
        "data-key": key(`token.${i}`),
        on: { click: () => go({ token: i + 1 }) },
      },
      plain(piece),
    ),
  );
  const line = element(
    "div",
    {
      class: "word-line small",
      role: "toolbar",
      "aria-label": "Token to walk with",
      dir: directionOf(walk.pieces.join(" ")),
    },
    buttons,
  );
  arrowKeys(line, buttons[walk.token]);
  return element(
    "div",
    {},
    element(
      "div",
      { class: "controls" },
      pick("stack", "Stack", stacks, walk.stack, (stack) => ({ stack })),
      pick("layer", "Layer", upTo(walk.layers), walk.layer, (layer) => ({ layer: Number(layer) })),
      pick("head", "Head", upTo(model.heads), walk.head + 1, (head) => ({ head: Number(head) })),
    ),
    line,
  );
}
