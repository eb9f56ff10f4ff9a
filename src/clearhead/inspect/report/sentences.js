// Which sentence and which model: the list of sentences, the models, and the summary of one item.

import { element, plain } from "./elements.js";
import { counted, decimal, percent } from "./numbers.js";

const FEW = 6; // sentences that are listed without a disclosure
const LONGEST = 150; // characters of a text in the headline

/** The numbers of the sentences in the report, in the order of their first item. */
function sentenceNumbers(report) {
  return [...new Set(report.items.map((item) => item.sentence))];
}

/** The item of a sentence (from 1) and a model (from 1), or undefined. */
export function itemOf(report, sentence, model) {
  const number = sentenceNumbers(report)[sentence - 1];
  return report.items.find((item) => item.sentence === number && item.model === model - 1);
}

/** The first model (from 1) that has a sentence (from 1). */
export function firstModel(report, sentence) {
  const number = sentenceNumbers(report)[sentence - 1];
  return (report.items.find((item) => item.sentence === number)?.model ?? 0) + 1;
}

/** The input, the output and its probability. */
export function headline({ report, model, item }) {
  const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
  const output = outputText(report, item);
  const given = (item.labels ?? []).filter(({ label }) => item.outputs.pieces.includes(label));
  const probability = given.length ? given[0].probability : Math.exp(item.score.log_probability);
  const what = `${counted(item.score.places.length, "token")}${item.score.finished ? "" : ", cut off before its end"}`;
  const isLong = item.source.text.length + output.length > LONGEST / 2;
  return [
    element(
      "h1",
      { class: isLong ? "long" : null },
      plain(cut(item.source.text)),
      output && [" → ", plain(cut(output))],
    ),
    element(
      "p",
      { class: "lead" },
      !output
        ? "An encoder without labels: it has attention, but no output."
        : [
            "The probability of this output is ",
            element("strong", {}, percent(probability)),
            model.task === "translation" ? `: the product over its ${what}.` : ".",
          ],
    ),
  ];
}

/** The list of sentences, as links. */
export function sentenceList({ report, state, link }) {
  const numbers = sentenceNumbers(report);
  if (numbers.length < 2) return null;
  const entry = (number, i) => {
    const item =
      itemOf(report, i + 1, state.model) ?? report.items.find((each) => each.sentence === number);
    const isCurrent = i + 1 === state.sentence;
    return element(
      "li",
      {},
      element(
        "a",
        {
          href: link({ sentence: i + 1, model: item.model + 1 }),
          "aria-current": isCurrent ? "true" : null,
          "data-key": `sentence.${i}`,
        },
        element("bdi", { class: "from" }, item.source.text),
        element(
          "span",
          { class: "to" },
          element("bdi", {}, outputText(report, item)),
          item.warning && element("span", { class: "mark" }, "warning"),
          item.untranslated?.length > 0 &&
            element("span", { class: "mark" }, "perhaps not all translated"),
        ),
      ),
    );
  };
  const list = element("ol", { class: "sentences" }, numbers.map(entry));
  const title = counted(numbers.length, "sentence");
  if (numbers.length <= FEW) return element("nav", { "aria-label": "Sentences" }, list);
  const step = (by, text) => {
    const next = state.sentence + by;
    const isThere = next >= 1 && next <= numbers.length;
    return (
      isThere &&
      element(
        "a",
        {
          href: link({ sentence: next, model: firstModel(report, next) }),
          "data-key": `step.${by}`,
        },
        text,
      )
    );
  };
  return element(
    "nav",
    { "aria-label": "Sentences" },
    element(
      "p",
      { class: "stepper" },
      step(-1, "← Previous"),
      ` Sentence ${state.sentence} of ${numbers.length} `,
      step(1, "Next →"),
    ),
    element("details", {}, element("summary", {}, `All ${title}`), list),
  );
}

/** The models that have the sentence, as links, and the choice of one beside it. */
export function modelChoice({ report, state, link, go, key }) {
  const having = report.models
    .map((_, i) => i + 1)
    .filter((model) => itemOf(report, state.sentence, model));
  if (having.length < 2) return null;
  const name = (model) => report.models[model - 1].name;
  return element(
    "nav",
    { class: "models", "aria-label": "Models" },
    element(
      "ul",
      {},
      having.map((model) =>
        element(
          "li",
          {},
          element(
            "a",
            {
              href: link({ model }),
              "aria-current": model === state.model ? "true" : null,
              "data-key": `model.${model}`,
            },
            plain(name(model)),
          ),
        ),
      ),
    ),
    element(
      "label",
      {},
      "Beside it ",
      element(
        "select",
        {
          "data-key": key("compare"),
          on: { change: (event) => go({ compare: Number(event.target.value) }) },
        },
        element("option", { value: 0, selected: !state.compare }, "no other model"),
        having
          .filter((model) => model !== state.model)
          .map((model) =>
            element("option", { value: model, selected: model === state.compare }, name(model)),
          ),
      ),
    ),
  );
}

function outputText(report, item) {
  if (item.target) return item.target.text;
  return givesNone(report.models[item.model], item) ? "no label" : item.outputs.pieces.join(", ");
}

/** Whether independent labels are all less probable than not. */
function givesNone(model, item) {
  return model.multi_label && item.labels?.[0]?.probability < 0.5;
}

/** What the model said of the sentence, how sure it was, and the model itself in one line. */
export function summary({ item, model }) {
  const { score } = item;
  const facts =
    model.task === "classification"
      ? (item.labels ?? [])
          .filter(({ label }) => item.outputs.pieces.includes(label))
          .map(({ label, probability }) => [plain(label), ` with probability ${percent(probability)}`])
      : [
          `log-probability ${decimal(score.log_probability)}`,
          typeof score.normalised === "number"
            ? `with length penalty ${decimal(score.normalised)}`
            : "",
          score.finished ? "" : "cut off before its end",
        ];
  const size = [
    model.decoder_layers
      ? `${model.encoder_layers} + ${model.decoder_layers} layers`
      : counted(model.encoder_layers, "layer"),
    counted(model.heads, "head"),
    `${model.d_model} dimensions`,
    `${model.norm}-norm`,
    `${short(model.parameters)} parameters`,
  ];
  return element(
    "header",
    { class: "summary" },
    element("h2", {}, plain(model.name)),
    element(
      "p",
      { class: "facts" },
      size.join(", "),
      facts.length > 0 && (model.task === "classification" ? ". Its answer: " : ". Its output: "),
      givesNone(model, item) && "no label; the most probable one is ",
      facts.filter(Boolean).flatMap((fact, i) => (i ? [", ", fact] : [fact])),
      ".",
    ),
    item.warning &&
      element(
        "p",
        { class: "warning", role: "note" },
        element("strong", {}, "Warning: "),
        plain(item.warning),
      ),
  );
}

function short(number) {
  if (number >= 1e6) return `${(number / 1e6).toFixed(number >= 1e7 ? 0 : 1)} million`;
  return number.toLocaleString("en");
}
