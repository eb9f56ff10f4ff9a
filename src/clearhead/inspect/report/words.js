// Source and output as words. Pointing at one lights up what it attends to and what attends to it.

import { arrowKeys, directionOf, element, plain, quoted } from "./elements.js";
import {
  choiceOf,
  kindsOf,
  KINDS,
  matrixNumber,
  matrixOf,
  numbersOf,
  rolesOf,
  rowNamesOf,
  subjectOf,
  tintLegend,
} from "./attention.js";
import { picture } from "./charts.js";
import { tint } from "./colours.js";
import { matrixRows } from "./downloads.js";
import { headThumbnails } from "./heads.js";
import { ranking } from "./numbers.js";
import { inUnits, unitsOf } from "./units.js";
import { outputDetails } from "./output_details.js";
import { labelDetails } from "./label_details.js";

const LONG = 140; // pieces of a sentence that gets the whole width, source and output side by side

/** The view "Words". */
export async function wordsView(context) {
  const { data, model, item, state } = context;
  const choice = choiceOf(state, item);
  const matrix = await matrixOf(data, model, item, choice, state.joined);
  const kind = choice.show === "measure" ? thumbnailKind(item) : choice.kind;
  const isLabel = model.task === "classification";
  const [chosen, label] = await Promise.all([
    isLabel || !state.place || state.place > item.outputs.pieces.length
      ? null
      : outputDetails(context),
    isLabel && item.outputs.pieces.length ? labelDetails(context, matrix) : null,
  ]);
  const isLong = item.source.pieces.length + item.outputs.pieces.length > LONG;
  return element(
    "div",
    { class: isLong ? "words-view long" : "words-view" },
    litWords(context, matrix, choice),
    element("div", { class: "explained" }, label, chosen),
    headThumbnails(context, kind, choice),
  );
}

function thumbnailKind(item) {
  return item.attention.cross ? "cross" : "encoder";
}

/** The two lines of words, and the sentence that puts the colours into numbers. */
function litWords(context, matrix, choice) {
  const { model, item, state, go, key } = context;
  const isLabel = model.task === "classification";
  const isChosen = !isLabel || item.outputs.pieces.length > 1; // of several outputs, one
  const place = isLabel ? Math.max(1, state.place) : state.place;
  const units = {
    source: unitsOf(item.source.pieces, item.source.words, state.joined),
    output: unitsOf(item.outputs.pieces, item.outputs.words, state.joined),
  };
  const withStart = matrix.columnSide === "output";
  if (withStart)
    units.output = [
      { text: matrix.columns[0].text, positions: [], isStart: true },
      ...units.output,
    ];
  const dropped = new Set(
    (item.untranslated ?? []).flatMap((word) => item.source.words[word][1]),
  );
  const isDropped = (unit, side) =>
    side === "source" && unit.positions.some((position) => dropped.has(position));
  const outputName = isLabel ? (isChosen ? "Labels" : "Label") : "Output";
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const lines = {};
  const buttons = {};
  for (const side of ["source", "output"]) {
    const chosen = (unit) =>
      side === "output" && isChosen && unit.positions.includes(place - 1);
    buttons[side] = units[side].map((unit, index) =>
      element(
        "button",
        {
          type: "button",
          class: `word${unit.isStart ? " start" : ""}${isDropped(unit, side) ? " dropped" : ""}`,
          title: isDropped(unit, side) ? "perhaps not translated" : null,
          "data-index": index,
          "data-key": key(`${side}.${index}`),
          "aria-pressed":
            side === "output" && isChosen && !unit.isStart ? String(chosen(unit)) : null,
        },
        plain(unit.text),
      ),
    );
    lines[side] = element(
      "div",
      {
        class: `word-line ${side}`,
        role: "toolbar",
        "data-side": side,
        dir: directionOf(units[side].map((unit) => unit.text).join(" ")),
        "aria-label":
          side === "source" ? sourceName(model) : isLabel ? outputName : "Output words",
      },
      buttons[side],
    );
    arrowKeys(lines[side], buttons[side][units[side].findIndex(chosen)]);
  }
  const lighting = new Lighting(matrix, units, buttons, readout, withStart);
  const at = (event) => {
    const button = event.target.closest("button.word");
    return button && [button.parentElement.dataset.side, Number(button.dataset.index)];
  };
  const rest = () => lighting.rest(place, isLabel);
  const block = element(
    "div",
    {
      class: "lines",
      on: {
        pointerover: (event) => {
          const found = at(event);
          if (found) lighting.light(...found);
        },
        focusin: (event) => {
          const found = at(event);
          if (found) lighting.light(...found);
        },
        pointerleave: rest,
        focusout: (event) => {
          if (!block.contains(event.relatedTarget)) rest();
        },
        click: (event) => {
          const found = at(event);
          if (!found || found[0] !== "output" || !isChosen) return;
          const [first] = units.output[found[1]].positions;
          if (first !== undefined) go({ place: first + 1 === state.place ? 0 : first + 1 });
        },
      },
    },
    element("div", {}, element("p", { class: "side-name" }, sourceName(model)), lines.source),
    units.output.length > 0 &&
      element("div", {}, element("p", { class: "side-name" }, outputName), lines.output),
  );
  rest();
  return picture(
    {
      title: matrix.title,
      text: howToRead(context, matrix, choice),
      csv: {
        name: `words-${matrix.name}`,
        what: `the numbers behind the words (${matrix.title})`,
        rows: () =>
          matrixRows(
            "",
            rowNamesOf(matrix),
            matrix.columns.map((unit) => unit.text),
            numbersOf(matrix),
          ),
      },
    },
    block,
    readout,
    tintLegend(matrix),
    dropped.size > 0 &&
      element(
        "p",
        { class: "legend" },
        element("span", { class: "dropped" }, "word"),
        "perhaps not translated: the output does not need it, or would be more probable without it",
      ),
  );
}

function sourceName(model) {
  return model.unit === "frame" ? "Frames" : "Source";
}

/** One sentence on what the picture shows, and one on whether to believe it. */
function howToRead({ model, item }, matrix, choice) {
  const same = matrix.rowSide === matrix.columnSide;
  const point =
    model.task === "classification" && choice.show === "measure"
      ? "Point at a word to see its number."
      : same
        ? "Point at a word: the filled words are those it looks at, the underlined ones look at it."
        : "Point at a word to see what belongs to it on the other side.";
  const click =
    model.task === "translation"
      ? " Choose an output word to see why it is there."
      : item.outputs.pieces.length > 1
        ? " Choose a label to see why it is there."
        : "";
  const roles = choice.head
    ? rolesOf(model, KINDS[choice.kind].head(choice.layer, choice.head))
    : "";
  const caution =
    choice.show === "measure"
      ? trust(model, choice.measure.name)
      : "Weights show where a head looks, which need not be what mattered.";
  return [
    `${matrix.meaning} ${inUnits(model, point)}${click} `,
    roles && `This head acts on: ${roles}. `,
    element("em", {}, caution),
  ];
}

function trust(model, name) {
  // The removal of words is exact; the belief is about measures that estimate it.
  if (!model.belief || name === "removal") return "";
  const { believed, rows } = model.belief;
  if (believed[0] === name) return "Of all estimates, this is the most faithful for this model.";
  if (believed.includes(name)) return "For this model, no estimate is measurably more faithful.";
  const row = (wanted) => rows.find((each) => each.measure === wanted);
  const [own, best, random] = [row(name), row(believed[0]), row("random")];
  if (own && random && own.comprehensiveness[0] <= random.comprehensiveness[0]) {
    return "For this model it is no better than a random order.";
  }
  return best ? `For this model, ${best.title} is more faithful.` : "";
}

/** Lights words. Only words whose colour changes are touched, so that 512 words stay fast. */
class Lighting {
  constructor(matrix, units, buttons, readout, withStart) {
    Object.assign(this, { matrix, units, buttons, readout, withStart });
    this.lit = new Map();
  }

  /** The row and the column of a word; -1 where it is none. */
  place(side, index) {
    const { rowSide, columnSide } = this.matrix;
    const row = side === rowSide ? index - (this.withStart ? 1 : 0) : -1;
    return [row, side === columnSide && index < this.matrix.columns.length ? index : -1];
  }

  /** Light up what belongs to a word. */
  light(side, index) {
    const { values, columns, rows, rowSide, columnSide } = this.matrix;
    const width = columns.length;
    const [row, column] = this.place(side, index);
    const fills = new Map();
    const lines = new Map();
    const same = rowSide === columnSide;
    let to = null;
    let from = null;
    if (row >= 0) {
      to = values.subarray(row * width, (row + 1) * width);
      to.forEach((value, c) => fills.set(this.buttons[columnSide][c], value));
    }
    if (column >= 0) {
      from = Float32Array.from(rows, (_, r) => values[r * width + column]);
      const shift = this.withStart ? 1 : 0;
      from.forEach((value, r) =>
        (same ? lines : fills).set(this.buttons[rowSide][r + shift], value),
      );
    }
    this.show(fills, lines, this.buttons[side][index]);
    this.say(this.units[side][index].text, to, from, row);
  }

  /** Without a word pointed at: the chosen output, or for a label what counts for it. */
  rest(place, isLabel) {
    const isShown = !isLabel || this.matrix.rowSide === "output";
    const index = isShown
      ? this.units.output.findIndex((unit) => unit.positions.includes(place - 1))
      : -1;
    if (index >= 0) this.light("output", index);
    else {
      this.show(new Map(), new Map(), null);
      this.readout.replaceChildren("Point at one of them, or choose one with the keyboard.");
    }
  }

  show(fills, lines, current) {
    const { limit, isSigned } = this.matrix;
    const next = new Map();
    for (const [button, value] of fills) {
      const background = tint(value, limit, isSigned);
      if (background) next.set(button, background);
    }
    for (const [button] of this.lit) if (!next.has(button)) button.style.backgroundColor = "";
    for (const [button, background] of next) {
      if (this.lit.get(button) !== background) button.style.backgroundColor = background;
    }
    this.lit = next;
    for (const button of this.underlined ?? []) button.style.boxShadow = "";
    this.underlined = [];
    for (const [button, value] of lines) {
      const colour = tint(value, limit, isSigned);
      if (!colour) continue;
      button.style.boxShadow = `inset 0 -${(1 + 4 * Math.sqrt(value)).toFixed(1)}px ${colour.replace(/\/.*\)/, ")")}`;
      this.underlined.push(button);
    }
    this.current?.classList.remove("pointed");
    this.current = current;
    current?.classList.add("pointed");
  }

  say(text, to, from, row) {
    const { rows, columns, rowSide, columnSide } = this.matrix;
    const same = rowSide === columnSide;
    const verbs =
      this.matrix.unit === "share"
        ? ["looks at", this.matrix.reads ? "is looked at to predict" : "is looked at by"]
        : ["depends on", "counts for"];
    if (!to && !from) {
      this.readout.replaceChildren(quoted(text), " is not in this picture.");
      return;
    }
    const parts = to ? subjectOf(this.matrix, row) : [quoted(text)];
    if (to) parts.push(` ${verbs[0]} `, this.strongest(to, columns));
    if (to && from && same) parts.push("; ", quoted(text));
    if (from) parts.push(` ${verbs[1]} `, this.strongest(from, rows));
    parts.push(".");
    this.readout.replaceChildren(...parts.flat());
  }

  /** The units with the largest numbers, as text. */
  strongest(values, units) {
    const best = ranking(values, Math.abs)
      .slice(0, 4)
      .filter((i) => Math.abs(values[i]) > this.matrix.limit * 0.005);
    if (!best.length) return ["nothing much"];
    return best.flatMap((i, number) => [
      number ? ", " : "",
      quoted(units[i].text),
      ` (${matrixNumber(this.matrix, values[i])})`,
    ]);
  }
}

/** The choices above the words: what lights up, layer, head, subwords. */
export function pictureControls({ item, state, go, key, hasSubwords }) {
  const choice = choiceOf(state, item);
  const option = (value, text, isChosen) => element("option", { value, selected: isChosen }, text);
  const choose = (event) => {
    const [show, measure] = event.target.value.split(":");
    go(show === "measure" ? { show, measure } : { show });
  };
  const what = element(
    "select",
    { "data-key": key("what"), on: { change: choose } },
    item.measures.length > 0 &&
      element(
        "optgroup",
        { label: "How much a word counts" },
        item.measures.map((measure) =>
          option(`measure:${measure.name}`, measure.title, choice.measure === measure),
        ),
      ),
    element(
      "optgroup",
      { label: "Where heads look" },
      kindsOf(item).map((kind) => option(kind, KINDS[kind].title, choice.kind === kind)),
    ),
  );
  const number = (name, label, values, current) =>
    element(
      "label",
      {},
      `${label} `,
      element(
        "select",
        {
          "data-key": key(name),
          on: { change: (event) => go({ [name]: Number(event.target.value) }) },
        },
        values.map(([value, text]) => option(value, text, value === current)),
      ),
    );
  const upTo = (count) => Array.from({ length: count }, (_, i) => [i + 1, i + 1]);
  return element(
    "div",
    { class: "controls" },
    element("label", {}, "Show ", what),
    choice.kind && number("layer", "Layer", upTo(choice.layers), choice.layer),
    choice.kind && number("head", "Head", [[0, "mean of all"], ...upTo(choice.heads)], choice.head),
    hasSubwords &&
      element(
        "label",
        { class: "check" },
        element("input", {
          type: "checkbox",
          checked: state.joined,
          "data-key": key("joined"),
          on: { change: (event) => go({ joined: event.target.checked }) },
        }),
        " Join subwords",
      ),
  );
}
