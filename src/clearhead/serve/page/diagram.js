// The model as a picture (figure 1 of the paper): data go up, the encoder is on the left. Each square
// is a head, which a click switches off; its colour is its effect on the output.

import { headTitle, rolesOf } from "./report/attention.js";
import { legend } from "./report/charts.js";
import { FAINTEST, tint } from "./report/colours.js";
import { arrowKeys, element, plain } from "./report/elements.js";
import { digitsFor, largest, signed } from "./report/numbers.js";
import { action } from "./controls.js";
import { attentionTitle, editsOf, toggled } from "./edits.js";

/** What switching off each head would do: {head: fall of the log-probability of the output}. */
export async function headEffects(data, item) {
  if (!item?.effects) return null;
  const { shape, values } = await data.array(item.effects.by_head);
  const [, places, choices] = shape;
  const sum = (head) => {
    let total = 0;
    for (let place = 0; place < places; place++) total += values[(head * places + place) * choices];
    return total;
  };
  return Object.fromEntries(item.effects.heads.map((name, head) => [name, sum(head)]));
}

/**
 * The diagram: `stacks`, and the `note` on the head that is pointed at.
 *
 * @param {object} context - `answer` and `state`; `effects` of the heads and the `model` of the
 *   report, or null; `go(changes)`.
 */
export function diagram(context) {
  const { answer, state, go } = context;
  const edits = editsOf(state);
  const names = Object.keys(answer.attentions);
  const hasDecoder = names.some((name) => name.startsWith("decoder."));
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const stacks = element(
    "div",
    { class: hasDecoder ? "stacks" : "stacks single" },
    element(
      "section",
      { class: "stack encoder", "aria-label": "Encoder" },
      !hasDecoder && outputOf(answer),
      layers(context, edits, names, "encoder"),
      bottom(context, edits),
    ),
    hasDecoder &&
      element(
        "section",
        { class: "stack decoder", "aria-label": "Decoder" },
        outputOf(answer),
        layers(context, edits, names, "decoder"),
        element(
          "div",
          { class: "stack-input" },
          element("p", { class: "side-name" }, "What it has written so far"),
          element("p", { class: "written" }, plain(answer.output.text || "nothing")),
        ),
      ),
    element("svg:svg", { class: "wires", "aria-hidden": "true" }),
  );
  const rest = () =>
    readout.replaceChildren(
      context.effects
        ? "Point at a head to read what it does here. A click switches it off."
        : "A click on a head switches it off. Its effect is being computed …",
    );
  stacks.addEventListener("pointerover", ({ target }) => say(target.closest(".head")));
  stacks.addEventListener("focusin", ({ target }) => say(target.closest(".head")));
  stacks.addEventListener("pointerleave", rest);
  const say = (head) => {
    if (head) readout.replaceChildren(...describe(context, head.dataset.name));
  };
  rest();
  if (hasDecoder) new ResizeObserver(() => drawWires(stacks)).observe(stacks);
  return { stacks, note: [readout, effectLegend(context.effects)] };
}

function describe({ effects, model, state }, name) {
  const isOff = editsOf(state).heads.includes(name);
  const roles = model ? rolesOf(model, name) : "";
  const effect = effects?.[name];
  const moved = (value) =>
    `the log-probability of the output ${value < 0 ? "rises" : "falls"} by ${Math.abs(value).toFixed(digitsFor(Math.abs(value) || 1))}`;
  return [
    element("strong", {}, headTitle(name)),
    isOff
      ? " is off. A click switches it on again."
      : effect === undefined
        ? ". A click switches it off."
        : `: without it, ${moved(effect)}. A click switches it off.`,
    roles && ` Over many sentences it acts on: ${roles}.`,
  ].filter(Boolean);
}

function effectLegend(effects) {
  if (!effects) return null;
  const limit = strongest(effects);
  const digits = digitsFor(limit);
  return legend(
    (along) => tint(limit * (2 * along - 1), limit, true),
    `hinders: ${signed(-limit, digits)}`,
    `${signed(limit, digits)}: helps the output`,
  );
}

function strongest(effects) {
  return Math.max(FAINTEST, largest(Object.values(effects)));
}

/** The layers of a stack, the last one on top. */
function layers(context, edits, names, stack) {
  const own = names.filter((name) => name.startsWith(`${stack}.`));
  const numbers = [...new Set(own.map((name) => Number(name.split(".")[1])))].reverse();
  const list = element(
    "ol",
    { class: "model-layers", reversed: true },
    numbers.map((number) =>
      element(
        "li",
        { class: "layer" },
        element("span", { class: "layer-title" }, element("span", { class: "aloud" }, "layer "), number),
        element("div", { class: "sublayer network" }, "feed-forward"),
        own
          .filter((name) => name.split(".")[1] === String(number))
          .reverse()
          .map((name) => attention(context, edits, name)),
      ),
    ),
  );
  return list;
}

/** An attention: its name, which shows where it looks, and its heads. */
function attention({ answer, state, effects, go }, edits, name) {
  const isCross = name.endsWith(".cross");
  const isShown = state.look === name || state.look?.startsWith(`${name}.`);
  const limit = effects ? strongest(effects) : 1;
  const head = (_, i) => {
    const full = `${name}.${i + 1}`;
    const isOff = edits.heads.some((each) => `${full}.`.startsWith(`${each}.`));
    const effect = effects?.[full];
    return action(
      `head.${full}`,
      () => go({ off: toggled(state.off, full) }),
      {
        class: "head",
        role: "switch",
        "data-name": full,
        "aria-checked": String(!isOff),
        "aria-label": headTitle(full),
        css: effect === undefined || isOff ? {} : { background: tint(effect, limit, true) },
      },
      i + 1,
    );
  };
  const heads = element(
    "div",
    { class: "switches", role: "toolbar", "aria-label": `Heads: ${attentionTitle(name)}` },
    Array.from({ length: answer.attentions[name] }, head),
  );
  arrowKeys(heads);
  return element(
    "div",
    { class: `sublayer attention${isCross ? " cross" : ""}` },
    action(
      `look.${name}`,
      () => go({ look: name }),
      {
        class: "attention-name",
        "aria-pressed": String(isShown),
        title: "Show where it looks",
      },
      element("span", { class: "aloud" }, `layer ${name.split(".")[1]} `),
      isCross ? "cross-attention" : "self-attention",
    ),
    heads,
  );
}

/** The words of the source, and their positions. */
function bottom({ answer, state, go }, edits) {
  const words = answer.source.words.map(([text], number) =>
    action(
      `word.${number}`,
      () => go({ hide: toggled(state.hide, String(number)) }),
      {
        class: "chip",
        role: "switch",
        "aria-checked": String(!edits.words.includes(number)),
        title: edits.words.includes(number) ? "Show it to the model again" : "Hide it from the model",
      },
      plain(text),
    ),
  );
  const line = element(
    "div",
    { class: "chips", role: "toolbar", "aria-label": "Words of the source" },
    words,
  );
  arrowKeys(line);
  return element(
    "div",
    { class: "stack-input" },
    answer.positions &&
      action(
        "positions",
        () => go({ set: edits.isSet ? "" : "1" }),
        { class: "chip positions", role: "switch", "aria-checked": String(!edits.isSet) },
        "+ positions",
      ),
    element("p", { class: "side-name" }, "Source: a click hides a word"),
    line,
  );
}

/** What comes out on top. */
function outputOf({ output }) {
  return element(
    "div",
    { class: "stack-output" },
    element("p", { class: "side-name" }, output.labels.length ? "Label" : "Output"),
    element("p", { class: "written" }, output.text ? plain(output.text) : "none"),
  );
}

/** The lines from the encoder to each cross-attention. */
function drawWires(stacks) {
  const wires = stacks.querySelector(".wires");
  const frame = stacks.getBoundingClientRect();
  const box = (part) => {
    const { left, right, top, bottom } = part.getBoundingClientRect();
    return {
      left: left - frame.left,
      right: right - frame.left,
      top: top - frame.top,
      middle: (top + bottom) / 2 - frame.top,
    };
  };
  const encoder = box(stacks.querySelector(".encoder .model-layers"));
  const ends = [...stacks.querySelectorAll(".cross")].map(box);
  if (!ends.length) return;
  const x = (encoder.right + box(stacks.querySelector(".decoder .model-layers")).left) / 2;
  const start = encoder.top - 14;
  const centre = (encoder.left + encoder.right) / 2;
  const heights = [start, ...ends.map((end) => end.middle)];
  const lines = [
    `M${centre} ${encoder.top}V${start}H${x}`,
    `M${x} ${Math.min(...heights)}V${Math.max(...heights)}`,
    ...ends.map(({ left, middle }) => `M${x} ${middle}H${left}m-6 -4l6 4l-6 4`),
  ];
  wires.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  wires.replaceChildren(element("svg:path", { d: lines.join("") }));
}

/** The attention that is shown: the chosen one, or the last one of the model. */
export function shownAttention({ answer, state }) {
  const names = Object.keys(answer.attentions);
  const [, name, head] = /^(\w+\.\d+\.\w+)(?:\.(\d+))?$/.exec(state.look ?? "") ?? [];
  const known = names.includes(name) ? name : names.at(-1);
  const count = answer.attentions[known];
  return { name: known, head: known === name && Number(head) <= count ? Number(head) : 0, count };
}

/** The kind of an attention by its name. */
export function kindOf(name) {
  return name.endsWith(".cross") ? "cross" : name.split(".")[0];
}
