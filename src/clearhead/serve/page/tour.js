// A guided tour in eight steps. Each has a text, a question that the reader answers with the page, and
// an explanation. The numbers are those of the sentence and the model on the page.

import { headTitle, matrixOf } from "./report/attention.js";
import { element, plain, quoted } from "./report/elements.js";
import { counted, decimal, percent, ranking } from "./report/numbers.js";
import { action, fill } from "./controls.js";
import { editsOf, isEdited, UNDO } from "./edits.js";

const EXAMPLES = {
  de: "der alte mann schläft im garten",
  en: "the old man sleeps in the garden",
  es: "el hombre duerme en el jardín",
  fr: "le vieil homme dort dans le jardin",
  it: "il vecchio dorme in giardino",
};

/** A sentence in the language of a model; undefined if there is none. */
export function exampleOf({ source, task }) {
  return EXAMPLES[source?.split(/[-_]/)[0].toLowerCase()] ?? (task === "classification" ? EXAMPLES.en : undefined);
}

const WEAK = 0.1; // nats; a head with less hardly counts

/** The panel of the tour. */
export class Tour {
  /** `parts` are those of the view, to which a step can lead. */
  constructor(place, parts) {
    Object.assign(this, { place, parts });
    this.place.setAttribute("aria-label", "Guided tour");
    this.base = null; // what the model does when nothing is switched off
    this.answers = new Map(); // by step
  }

  /** Show the step of the state; the context is that of the view. */
  async show(context) {
    const { state, answer, item, isFresh } = context;
    const drawing = (this.drawing = Symbol("drawing"));
    const number = Math.min(STEPS.length, Number(state.tour) || 0);
    this.place.hidden = !number;
    if (!number) return;
    const key = JSON.stringify([state.model, state.text, state.checkpoint, state.temp, state.beam]);
    if (this.base?.key !== key) {
      if (this.base?.sentence !== state.text) this.answers.clear();
      this.base = null;
    }
    if (answer && item && isFresh && !isEdited(editsOf(state)))
      this.base = { ...context, key, sentence: state.text };
    const step = STEPS[number - 1];
    const content = this.base && (await step.make({ ...context, base: this.base }));
    if (drawing !== this.drawing) return;
    fill(this.place, this.head(number, step, context), this.body(number, step, content, context));
  }

  head(number, step, { go, answer }) {
    const to = (next) => () => go(stateOf(next, answer));
    return [
      element("p", { class: "tour-number" }, `Guided tour, ${number} of ${STEPS.length}`),
      element("h2", {}, step.title),
      element(
        "div",
        { class: "tour-steps" },
        number > 1 && action("tour-back", to(number - 1), { class: "pill" }, "← Back"),
        number < STEPS.length
          ? action("tour-next", to(number + 1), { class: "pill strong" }, "Next →")
          : action("tour-end", () => go({ tour: "" }), { class: "pill strong" }, "End"),
        number < STEPS.length && action("tour-leave", () => go({ tour: "" }), { class: "pill" }, "Leave"),
      ),
    ];
  }

  body(number, step, content, context) {
    const { answer, state, go } = context;
    if (!answer) return element("p", {}, "Type a sentence first, or take the example.");
    if (!content)
      return element(
        "p",
        {},
        isEdited(editsOf(state))
          ? action("tour-undo", () => go(UNDO), { class: "pill" }, "Undo all to go on")
          : "The numbers are being computed …",
      );
    const explanation = element(
      "details",
      { open: this.answers.get(`${number}.open`) },
      element("summary", { "data-key": "tour-explanation" }, "Explanation"),
      element("p", {}, content.explanation),
    );
    explanation.addEventListener("toggle", () => this.answers.set(`${number}.open`, explanation.open));
    return element(
      "div",
      { class: "tour-body" },
      element("p", { class: "tour-text" }, content.text),
      element(
        "div",
        { class: "tour-question" },
        element("p", { class: "question" }, content.question),
        content.options && this.options(number, content, context),
        content.task,
        step.part &&
          this.parts[step.part].childElementCount > 0 &&
          action(
            "tour-there",
            () => this.parts[step.part].scrollIntoView(),
            { class: "pill" },
            "Show this part of the page ↓",
          ),
      ),
      explanation,
    );
  }

  options(number, { options }, context) {
    const chosen = options.find(({ text }) => text === this.answers.get(number));
    const choose = (text) => () => {
      this.answers.set(number, text);
      this.show(context);
    };
    return [
      element(
        "div",
        { class: "options", role: "group", "aria-label": "Answers" },
        options.map(({ text, isRight }, i) =>
          action(
            `option.${i}`,
            choose(text),
            {
              class: `pill${chosen?.text === text ? (isRight ? " is-right" : " is-wrong") : ""}`,
              "aria-pressed": String(chosen?.text === text),
            },
            plain(text),
          ),
        ),
      ),
      element(
        "p",
        { class: "verdict", role: "status" },
        chosen && (chosen.isRight ? "Yes. " : "Not quite: look again, or open the explanation."),
      ),
    ];
  }
}

/** The state with which a step begins: nothing is off, and it shows what the step is about. */
export function stateOf(number, answer) {
  const names = Object.keys(answer?.attentions ?? {});
  const look = STEPS[number - 1].look?.(names);
  return { ...UNDO, tour: String(number), ...(look ? { look } : {}) };
}

const isTranslator = ({ output }) => output.steps.length > 0;
const lastOf = (names) => names.at(-1);

const STEPS = [
  { title: "Attention", look: lastOf, make: attention },
  { title: "Heads", make: heads },
  { title: "Positions", make: positions },
  {
    title: "Masks",
    look: (names) => names.find((name) => /^decoder\.\d+\.self$/.test(name)) ?? names[0],
    make: masks,
  },
  { title: "Encoder and decoder", make: stacks },
  { title: "Training", part: "training", make: training },
  { title: "Beam search", part: "decoding", make: search },
  { title: "What to believe", part: "report", look: lastOf, make: belief },
];

/**
 * The attention to each source word, the mean of all layers and heads: a row for each word of the
 * output, or for a classifier one row, the mean of all words that look.
 */
async function attentionTo({ data, item }) {
  const cross = item.attention.cross;
  const { shape, values } = await data.array(cross ?? item.attention.encoder);
  const [layers, headCount, queries, keys] = shape;
  const mean = new Float32Array(queries * keys);
  for (let i = 0; i < values.length; i++) mean[i % mean.length] += values[i] / (layers * headCount);
  const every = Array.from({ length: queries }, (_, i) => i);
  const rows = cross ? item.outputs.words : [["", every]];
  return rows.map(([text, positions]) => ({
    text,
    shares: item.source.words.map(([, own]) => {
      let sum = 0;
      for (const query of positions) for (const each of own) sum += mean[query * keys + each];
      return sum / positions.length;
    }),
  }));
}

/** The fall of the log-probability of each word of the output, or of the label, by source word. */
async function removalOf({ data, item }) {
  const { shape, values } = await data.array(item.effects.by_source);
  const [words, places, choices] = shape;
  const rows = item.target ? item.outputs.words : [["", [0]]];
  return rows.map(([, positions]) =>
    Array.from({ length: words }, (_, word) =>
      positions.reduce((sum, place) => sum + values[(word * places + place) * choices], 0),
    ),
  );
}

/** The entries of a list around the best ones, in the order of the sentence. */
function fewOf(values, most = 7) {
  const few = new Set(ranking(values).slice(0, most));
  return values.map((_, i) => i).filter((i) => few.has(i));
}

async function attention({ base }) {
  const rows = await attentionTo(base);
  const { text, shares } = rows[Math.min(1, rows.length - 1)];
  const words = base.item.source.words.map(([word]) => word);
  const [best] = ranking(shares);
  return {
    text: "Attention is how a word takes information from other words. In the table each row is a word, and its numbers say how it divides its attention: a row adds up to 100 %. Each head has its own table; the page shows the mean of the heads, or the head that you choose.",
    question: text
      ? ["When the decoder predicts ", quoted(text), ", at which source word do its heads look most, all layers and heads together?"]
      : "Which word gets most attention in the encoder, all layers, heads and words together?",
    options: fewOf(shares).map((i) => ({ text: words[i], isRight: words[i] === words[best] })),
    explanation: [
      quoted(words[best]),
      ` gets ${percent(shares[best])} of the attention`,
      text && [" when ", quoted(text), " is predicted"],
      ". Hide this word with a click, below the encoder: does the output need it? Where a model looks and what it needs may differ; the last step comes back to this.",
    ],
  };
}

function heads({ base, state, answer }) {
  const order = Object.entries(base.effects).sort((a, b) => b[1] - a[1]);
  const names = order.map(([name]) => name);
  const weak = order.filter(([, effect]) => Math.abs(effect) < WEAK).length;
  const off = editsOf(state).heads.filter((name) => names.includes(name));
  const fall = (name) => {
    const effect = base.effects[name];
    return `${effect < 0 ? "rises" : "falls"} by ${decimal(Math.abs(effect))}`;
  };
  return {
    text: `Every attention looks several times at once. Each square is a head with weights of its own, and this model has ${names.length}. Some follow the order of the words, some the meaning, and some do nothing that can be seen.`,
    question: "Which single head does this output need most? Switch it off in the picture. Which word changes?",
    task: element(
      "p",
      { class: "verdict", role: "status" },
      off.length !== 1
        ? off.length
          ? "Leave only one of them off."
          : "No head is off yet."
        : [
            `Without ${headTitle(off[0])} the log-probability of the first output ${fall(off[0])}. `,
            names[0] === off[0]
              ? "No other head counts as much. "
              : `It is number ${names.indexOf(off[0]) + 1} of ${names.length}; try another one. `,
            answer.before &&
              (answer.before.text === answer.output.text
                ? "No word changes."
                : ["Now the output is ", quoted(answer.output.text), "."]),
          ],
    ),
    explanation: [
      `The most needed ones are ${names.slice(0, 3).map((name) => `${headTitle(name)} (the log-probability ${fall(name)})`).join(", ")}. `,
      `${counted(weak, "head")} of ${names.length} change it by less than ${WEAK}. `,
      "Effects do not add up: two heads that do the same can each be missing, but not both.",
    ],
  };
}

function positions({ base, answer, state }) {
  const { item } = base;
  if (!base.answer.positions || !item.unordered)
    return {
      text: "Attention by itself sees a set of words. Most models add a vector to each word that depends on its place. This one adds none to its input.",
      question: "Exchange two words of the sentence. Does the output change?",
      explanation: "Without positions the encoder gives every word the same vector, wherever it is, unless another part, such as a convolution, sees the neighbours.",
    };
  const usual = isTranslator(base.answer)
    ? (base.answer.greedy ?? base.answer.output).text
    : base.answer.output.text;
  const isSame = usual.split(/\s+/).join(" ") === item.unordered.text;
  return {
    text: "Attention by itself sees a set: to it, “a dog bites a man” is “a man bites a dog”. So the model adds a vector to each word that depends on its place in the sentence.",
    question: "Will the output be the same without the positions of the source? Guess, then switch off “+ positions” in the picture.",
    options: [
      { text: "the same", isRight: isSame },
      { text: "another one", isRight: !isSame },
    ],
    task:
      editsOf(state).isSet &&
      element(
        "p",
        { class: "verdict", role: "status" },
        "Without positions: ",
        quoted(answer.output.text || "nothing"),
        answer.before && ` (${percent(answer.output.probability)}; before ${percent(answer.before.probability)})`,
      ),
    explanation: [
      "Without positions, greedy search gives ",
      quoted(item.unordered.text || "nothing"),
      `. The log-probability of the usual output is then ${decimal(item.unordered.log_probability)}, and ${decimal(item.score.log_probability)} with positions. The vectors themselves are the same for all sentences: sines and cosines, or learned.`,
    ],
  };
}

async function masks({ base, state, answer }) {
  const { data, item, model } = base;
  if (!item.attention.decoder) {
    const isDone = editsOf(state).cells.length > 0;
    return {
      text: "An encoder may look at all words of a text. Only padding, which makes the texts of a batch equally long, is masked: its weight is 0. A click on a cell of the table sets such a mask.",
      question: "Mask the strongest cell of a row. Does the label change?",
      task: element("p", { class: "verdict", role: "status" }, isDone && answer.before ? changeOf(answer) : "No cell is masked yet."),
      explanation: "The other weights of the row grow, so that they again sum to 1. What was in the masked word can still arrive through other layers and other words.",
    };
  }
  const [layers, count] = item.attention.decoder.shape;
  const choice = { show: "decoder", kind: "decoder", layer: 1, head: 0, layers, heads: count };
  const { rows, columns, masked } = await matrixOf(data, model, item, choice, true);
  const row = Math.min(2, rows.length - 1);
  const open = columns.filter((_, column) => !masked[row * columns.length + column]).length;
  return {
    text: "In training the decoder gets the whole translation at once and predicts all words together. A mask hides from each position what comes later: otherwise it could copy the next word in place of predicting it.",
    question: [
      "The table shows the self-attention of the decoder. How many columns may the row of ",
      quoted(rows[row].text),
      " look at?",
    ],
    options: columns.map((_, i) => ({ text: String(i + 1), isRight: i + 1 === open })),
    explanation: `${open}: the start symbol and what is written before it. The hatched cells are masked, so their weight is 0 and each row is a prediction without knowledge of what follows. Padding is masked in the same way, and every click on a cell sets one more mask; try it on the strongest cell of a row.`,
  };
}

function changeOf({ output, before }) {
  return [
    before.text === output.text ? "The output stays the same: " : ["The output is now ", quoted(output.text || "nothing"), ": "],
    `${percent(output.probability)}, before ${percent(before.probability)}.`,
  ];
}

function stacks({ base, state, answer, go }) {
  const all = base.item.source.words.map((_, i) => i);
  const isDone = all.every((i) => editsOf(state).words.includes(i));
  const translates = isTranslator(base.answer);
  const now = isDone && answer.before;
  return {
    text: translates
      ? "The encoder reads the source once. The decoder writes word by word and asks the encoder at every step: the lines in the picture lead from the last layer of the encoder to each cross-attention."
      : "This model has an encoder, but no decoder: it does not write, it only chooses among labels. The vectors of all words become one, and the labels are read from it.",
    question: translates
      ? "What does the decoder write if it knows nothing of the source? Guess, then hide all words."
      : "Which label does the model give if it reads nothing? Guess, then hide all words.",
    task: [
      action("hide-all", () => go({ hide: all.join(",") }), { class: "pill", disabled: isDone }, "Hide all words"),
      element(
        "p",
        { class: "verdict", role: "status" },
        now && [
          "Without the source: ",
          quoted(answer.output.text || "nothing"),
          ` with ${percent(answer.output.probability)}.`,
          answer.before_now !== null && ` The first output has ${percent(answer.before_now)} left.`,
        ],
      ),
    ],
    explanation: translates
      ? "Without the source the decoder is a language model: what it writes comes from its training alone, and it can be fluent all the same. So a fluent translation need not be a faithful one."
      : "What is left is what the model holds to be likely before it has read anything. It often is the most frequent label of the training data.",
  };
}

function training({ base }) {
  const { answer } = base;
  const translates = isTranslator(answer);
  const probability = translates ? answer.output.steps[0].probability : answer.output.labels[0].probability;
  const times = probability * answer.vocabulary;
  const power = Math.max(0, Math.round(Math.log10(times)));
  const most = Math.max(3, Math.ceil(Math.log10(answer.vocabulary)));
  const what = translates ? "the first token of this output" : "the label";
  const name = (exponent) => (exponent ? `about ${(10 ** exponent).toLocaleString("en")} times` : "about as probable");
  const others = answer.checkpoints.filter((each) => !each.is_model);
  return {
    text: `Before training, all weights are random, and each of the ${answer.vocabulary.toLocaleString("en")} ${translates ? "tokens of the vocabulary" : "labels"} is about equally probable. Training shows the model examples, one batch after the other, and moves the weights a little each time, so that the right ${translates ? "next token" : "label"} becomes more probable.`,
    question: `How many times as probable as by chance is ${what} now?`,
    options: Array.from({ length: most + 1 }, (_, exponent) => ({
      text: name(exponent),
      isRight: exponent === power,
    })),
    explanation: [
      `By chance it would have ${percent(1 / answer.vocabulary)}; it has ${percent(probability)}, which is ${Math.round(times).toLocaleString("en")} times as much. `,
      others.length
        ? `This run has kept ${counted(others.length, "earlier state")}: move the slider of “While it was trained”, and see from when on the output is right.`
        : "This run has kept only its last weights. A run that keeps checkpoints has a slider here that shows the output at each of them.",
    ],
  };
}

function search({ base, answer }) {
  if (!isTranslator(base.answer)) {
    const { labels } = base.answer.output;
    return {
      text: "A translator needs a search, since nobody can try all sentences. A classifier needs none: it computes the probability of every label at once, and the most probable one is its answer.",
      question: "Which label is the second most probable one here?",
      options: labels.slice(0, 6).map(({ label }) => label).sort().map((label) => ({ text: label, isRight: label === labels[1]?.label })),
      explanation: labels[1]
        ? [quoted(labels[1].label), ` has ${percent(labels[1].probability)}, the first one ${percent(labels[0].probability)}.`]
        : "There is only one label.",
    };
  }
  const { output, greedy } = answer;
  const gain = greedy ? output.log_probability - greedy.log_probability : 0;
  const size = answer.beam_size ?? 0;
  return {
    text: "Nobody can try all sentences, so the decoder searches. Greedy search takes the most probable token at each step. A beam keeps the best few beginnings, and goes on with all of them: a word that looks worse now may lead to a better whole.",
    question: "Move the beam size from 1 up to 10 (“Word by word”, below). Does a wider beam find a more probable output than greedy search?",
    task: element(
      "p",
      { class: "verdict", role: "status" },
      size < 2
        ? "The search is greedy now, or draws."
        : `A beam of ${size} finds an output with the log-probability ${decimal(output.log_probability)}, greedy search one with ${decimal(greedy.log_probability)}: ${Math.abs(gain) < 5e-4 ? "no difference here." : gain > 0 ? "the beam found a more probable one." : "the beam found a less probable one; a penalty of length decides, too."}`,
    ),
    explanation:
      "Where the model is sure, both find the same. A wider beam costs as many times more and mostly helps little; very wide ones can even find worse translations, since short outputs have a high probability. The tree is in the view “Beam”, further below. A temperature draws words at random in place of a search.",
  };
}

async function belief({ base }) {
  const { item, model } = base;
  if (!item.effects)
    return {
      text: "Where heads look is not yet why an output is there.",
      question: "Take a shorter sentence: this one is too long to hide each word in turn.",
      explanation: "An exact answer needs the probability without each word.",
    };
  const [looks, falls] = await Promise.all([attentionTo(base), removalOf(base)]);
  const words = item.source.words.map(([word]) => word);
  const pairs = looks.map(({ text, shares }, row) => ({
    text,
    seen: ranking(shares)[0],
    needed: ranking(falls[row])[0],
  }));
  const agreeing = pairs.filter(({ seen, needed }) => seen === needed).length;
  const other = pairs.find(({ seen, needed }) => seen !== needed);
  const study = model.belief
    ? ["Over many sentences: ", plain(model.belief.text)]
    : "“clearhead study” measures over many sentences which of the estimates is faithful for this model.";
  const [single] = pairs;
  return {
    text: "Attention shows where heads look. That is not yet why an output is there: information also flows through other layers, and a word that is looked at may not matter. Hiding a word and computing the probability again is exact, because it is the experiment itself.",
    question: single.text
      ? `The output has ${counted(pairs.length, "word")}. For how many of them is the source word that the heads look at most also the one whose removal costs most?`
      : "Is the word that gets most attention also the one that the label needs most?",
    options: single.text
      ? pairs.concat(null).map((_, i) => ({ text: String(i), isRight: i === agreeing }))
      : [
          { text: "yes", isRight: agreeing === 1 },
          { text: "no", isRight: agreeing === 0 },
        ],
    explanation: [
      single.text ? `For ${agreeing} of ${pairs.length}. ` : agreeing ? "Yes, here it is. " : "No. ",
      other && [
        single.text && ["For ", quoted(other.text), " they differ: "],
        "the heads look most at ",
        quoted(words[other.seen]),
        ", but the probability falls most without ",
        quoted(words[other.needed]),
        ". ",
      ],
      study,
      " Trust the experiment, and an estimate only as far as it was tested.",
    ],
  };
}
