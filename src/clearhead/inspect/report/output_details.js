// One output word: its probability, the alternatives, and what each head and each word did for it.
// A classifier's label is explained in the same way.

import { arrowKeys, element, plain, quoted } from "./elements.js";
import { headNamed, headTitle, rolesOf } from "./attention.js";
import { picture, rankedBars } from "./charts.js";
import { FAINTEST } from "./colours.js";
import { decimal, digitsFor, largest, percent, ranking, signed } from "./numbers.js";

const SATURATED = 0.95; // probability from which on the log-probability hardly moves

/** What is known of the output at the chosen place, or of it against an alternative. */
export async function outputDetails(context) {
  const { data, item, state, go, key } = context;
  const place = Math.min(state.place, item.outputs.pieces.length) - 1;
  const names = item.alternatives.pieces[place];
  const against = state.against < names.length ? state.against : 0;
  const found = item.effects ? await effectsAt(data, item, place, against) : null;
  const logs = (await data.part(item.alternatives.log_probabilities, [place])).values;
  const [piece, other] = [item.outputs.pieces[place], names[against]];
  // The difference of two log-probabilities is that of the logits: the softmax cancels out.
  const isNearOne = found && !against && names.length > 1 && Math.exp(logs[0]) >= SATURATED;
  const margins = isNearOne ? await effectsAt(data, item, place, 1) : null;
  const all = { ...context, place, names, against, found, margins, logs, piece, other };
  return element(
    "section",
    { class: "details" },
    element(
      "h3",
      { class: "details-title" },
      "Why ",
      quoted(piece),
      against > 0 && [" and not ", quoted(other)],
    ),
    pieceChoice(all),
    element("p", { class: "lead" }, opening(all)),
    against > 0 &&
      element(
        "p",
        {},
        element(
          "button",
          {
            type: "button",
            "data-key": key("alone"),
            on: { click: () => go({ against: 0 }) },
          },
          "Explain it without the comparison",
        ),
      ),
    element(
      "div",
      { class: "details-grid" },
      alternatives(all),
      found
        ? [origin(all), byHead(all), bySource(all), byPrefix(all)]
        : element(
            "p",
            { class: "how" },
            "This sentence is too long to switch off each head and each word of it.",
          ),
    ),
  );
}

/** The effects on one place: numbers for the output, or the difference to an alternative. */
async function effectsAt(data, item, place, against) {
  const at = async (reference) => {
    if (!reference) return new Float32Array(0);
    const { shape, values } = await data.array(reference);
    const [places, choices] = shape.slice(-2);
    return Float32Array.from({ length: shape.length === 3 ? shape[0] : 1 }, (_, entry) => {
      const first = (entry * places + place) * choices;
      return against ? values[first] - values[first + against] : values[first];
    });
  };
  const { effects } = item;
  const [heads, sources, prefixes, source, prefix] = await Promise.all(
    [effects.by_head, effects.by_source, effects.by_prefix, effects.source, effects.prefix].map(at),
  );
  const share = item.share?.[place] ?? null;
  return { heads, sources, prefixes, source: source[0], prefix: prefix[0], share };
}

/** A word of several pieces: each piece has its own explanation. */
function pieceChoice({ item, go, key, place }) {
  const word = item.outputs.words.find(([, places]) => places.includes(place));
  if (!word || word[1].length < 2) return null;
  const choices = word[1].map((other) =>
    element(
      "button",
      {
        type: "button",
        class: "word",
        "aria-pressed": String(other === place),
        "data-key": key(`piece.${other}`),
        on: { click: () => go({ place: other + 1 }) },
      },
      plain(item.outputs.pieces[other]),
    ),
  );
  const toolbar = element("span", { role: "toolbar", "aria-label": "Pieces of the word" }, choices);
  arrowKeys(toolbar, choices[word[1].indexOf(place)]);
  return element("p", {}, "This word has several pieces, predicted one after another: ", toolbar);
}

/** The probability of a choice; of a label the calibrated one, if there is one. */
function probabilityOf({ item, names, logs }, choice) {
  const label = item.labels?.find((each) => each.label === names[choice]);
  return label ? label.probability : Math.exp(logs[choice]);
}

function opening(all) {
  const { against, found, margins, names, piece, other, logs } = all;
  const probability = percent(probabilityOf(all, 0));
  if (!against) {
    return [
      "The model gives it a probability of ",
      element("strong", {}, probability),
      ". ",
      found &&
        !margins &&
        "Each bar below shows how much its log-probability falls without a head or a word. ",
      margins && [
        "So near to 1 the log-probability hardly moves. Each bar below therefore shows how much the logit difference falls without a head or a word: the logit of ",
        quoted(piece),
        " minus that of the best other output, ",
        quoted(names[1]),
        `, which is ${decimal(logs[0] - logs[1])}. The fall of the log-probability (log p) is below each name. `,
      ],
      found &&
        "Positive, to the right: it falls, so the part helped. Negative, to the left: it rises, so the part hindered. Effects do not add up: each of two parts that do the same can be missing without harm.",
    ];
  }
  const odds = Math.exp(logs[0] - logs[against]);
  return [
    quoted(piece),
    ` has ${probability}, `,
    quoted(other),
    ` ${percent(probabilityOf(all, against))}: `,
    `${odds >= 10 ? Math.round(odds).toLocaleString("en") : odds.toFixed(odds >= 1 ? 1 : 2)} times as probable. `,
    found && [
      "Each bar shows how the distance between the two log-probabilities changes. Bars to the right speak for ",
      quoted(piece),
      ", bars to the left for ",
      quoted(other),
      ".",
    ],
  ];
}

function alternatives(all) {
  const { item, model, go, key, place, against, names } = all;
  const choices = names.map((name, choice) => ({
    name,
    choice,
    probability: probabilityOf(all, choice),
  }));
  const others = (item.labels ?? [])
    .filter(({ label }) => !names.includes(label))
    .map(({ label, probability }) => ({ name: label, choice: null, probability }));
  const button = (name, changes, isPressed, id) =>
    element(
      "button",
      {
        type: "button",
        class: "link",
        "aria-pressed": String(isPressed),
        "data-key": key(id),
        on: { click: () => go(changes) },
      },
      plain(name),
    );
  const labelOf = (name, choice) => {
    if (choice) {
      const isPressed = choice === against;
      return button(name, { against: isPressed ? 0 : choice }, isPressed, `against.${choice}`);
    }
    const output = model.multi_label && choice !== 0 ? item.outputs.pieces.indexOf(name) : -1;
    if (output >= 0) return button(name, { place: output + 1 }, false, `label.${output}`);
    return element(choice === 0 ? "strong" : "span", {}, plain(name));
  };
  const rows = [...choices, ...others].map(({ name, choice, probability }) => ({
    label: labelOf(name, choice),
    value: probability,
    text: percent(probability),
    current: choice === against && against > 0,
  }));
  const what = item.labels ? "labels" : "alternatives";
  return picture(
    {
      title: item.labels ? "Labels" : "Alternatives",
      level: 4,
      text: item.labels
        ? model.multi_label
          ? "How probable each label is. None excludes another. Choose one of the answer to see why it is there."
          : "How probable each label is. Choose one to see why it is not the answer."
        : "The most probable words at this place. Choose one to see why it was not taken.",
      csv: {
        name: `${what}-${place + 1}`,
        what: `the ${what}`,
        rows: () => [
          ["word", "probability"],
          ...[...choices, ...others].map((each) => [each.name, each.probability]),
        ],
      },
    },
    rankedBars(
      rows,
      { caption: `Probability of the ${what}`, limit: 1, head: ["word", "probability"] },
      10,
    ),
  );
}

function origin({ found, place, against }) {
  const { share, source, prefix } = found;
  if (share === null || against) return null;
  return picture(
    {
      title: "From the source or from the words before",
      level: 4,
      text: [
        `Without the whole source the log-probability of this word ${fall(source)}, without all words before it it ${fall(prefix)}. Of both falls together, that without the source is `,
        element("strong", {}, percent(share)),
        ".",
      ],
      csv: {
        name: `source-and-prefix-${place + 1}`,
        what: "the effects of the source and of the words before",
        rows: () => [
          ["without", "fall of the log-probability", "share of both falls"],
          ["the source", source, share],
          ["the words before", prefix, 1 - share],
        ],
      },
    },
    element(
      "div",
      { class: "share", "aria-hidden": "true" },
      element(
        "span",
        { class: "share-source", css: { "inline-size": `${(share * 100).toFixed(1)}%` } },
        share > 0.2 && "source",
      ),
      element("span", { class: "share-prefix" }, share < 0.7 && "words before"),
    ),
  );
}

function fall(value) {
  return `${value < 0 ? "rises" : "falls"} by ${decimal(Math.abs(value))}`;
}

function byHead(all) {
  const { item, model, link } = all;
  const names = item.effects.heads;
  const label = (i) => {
    const { kind, layer, head } = headNamed(names[i]);
    return element("a", { href: link({ show: kind, layer, head }) }, headTitle(names[i]));
  };
  return effectPicture(
    all,
    "What each head did",
    `Heads in the order of their effect: ${model.effects_by === "mean" ? "its mean output" : "zero"} replaces the output of each. Choose one to see where it looks.`,
    "head",
    "heads",
    names,
    label,
    (i) => rolesOf(model, names[i]),
  );
}

function bySource(all) {
  const { item, model } = all;
  const what = model.unit === "frame" ? "frame" : item.labels ? "word" : "source word";
  const names = item.source.words.map(([word]) => word);
  const text = `All ${what}s in the order of their effect.`;
  return effectPicture(all, `What each ${what} did`, text, "source", "sources", names);
}

function byPrefix(all) {
  const { item, place, found } = all;
  // Words after this one cannot have an effect: the decoder has not written them yet.
  const written = (positions) => positions.filter((position) => position <= place);
  const before = (item.target?.words ?? [])
    .filter(([, positions]) => written(positions).length)
    .map(([text, positions]) =>
      positions.at(-1) <= place
        ? text
        : written(positions)
            .map((position) => item.target.pieces[position].replace(/^(?:[▁Ġ]+|##)/, ""))
            .join(""),
    );
  if (!before.length || !found.prefixes.length) return null;
  const text = "The words already written, in the order of their effect.";
  return effectPicture(all, "What each word before it did", text, "prefix", "prefixes", before);
}

/** Bars of the effects of parts; near a probability of 1 those on the logit difference. */
function effectPicture(
  { place, against, found, margins },
  title,
  text,
  name,
  part,
  names,
  label = (i) => plain(names[i]),
  role = () => "",
) {
  const falls = found[part].subarray(0, names.length);
  const values = margins ? margins[part].subarray(0, names.length) : falls;
  const digits = digitsFor(largest(values));
  const small = (i) => `log p ${signed(falls[i], digitsFor(largest(falls)))}`;
  const rows = ranking(values, Math.abs).map((i) => ({
    label: label(i),
    note: [margins && small(i), role(i)].filter(Boolean).join("; "),
    value: values[i],
    text: signed(values[i], digits),
  }));
  const of = against || margins ? "fall of the logit difference" : "fall of the log-probability";
  const both = margins ? ["fall of the log-probability"] : [];
  return picture(
    {
      title,
      text,
      level: 4,
      csv: {
        name: `${name}-effects-${place + 1}${against ? `-against-${against}` : ""}`,
        what: title.toLowerCase(),
        rows: () => [
          [name, of, ...both],
          ...names.map((each, i) => [each, values[i], ...both.map(() => falls[i])]),
        ],
      },
    },
    rankedBars(rows, {
      caption: title,
      isSigned: true,
      limit: Math.max(FAINTEST, largest(values)),
      head: [name, of],
    }),
  );
}
