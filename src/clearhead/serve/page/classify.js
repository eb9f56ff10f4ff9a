// The view "Classify": the labels of a text, and the words that count for them.

import { element, plain, quoted } from "./report/elements.js";
import { bars } from "./report/charts.js";
import { FAINTEST, tint } from "./report/colours.js";
import { percent, signed } from "./report/numbers.js";

const PAUSE = 250; // milliseconds without a key after which the text is classified
const SHOWN = 8; // labels

let text = ""; // stays while another view is shown

export function classifiersOf({ models }) {
  return models.filter(
    (model) => model.task === "classification" && model.input === "text" && model.labels.length,
  );
}

/** A text, the probabilities of its labels, and what each word does. */
export async function classifyView(context) {
  const { api, state, go, settings } = context;
  const models = classifiersOf(context);
  const model = models.find((each) => each.name === state.model) ?? models[0];
  const results = element("div", { class: "results", "aria-live": "polite" });
  let abort = new AbortController();
  let timer = 0;

  const run = async () => {
    const { signal } = (abort = new AbortController());
    if (!text.trim()) return results.replaceChildren();
    try {
      const body = { model: model.name, texts: [text], top: SHOWN };
      const [{ labels, warnings }] = (await api.post("/v1/classify", body, { signal })).results;
      const reasons = element("div", {});
      results.className = "results";
      results.replaceChildren(probabilities(labels), notes(warnings), reasons);
      if (!settings.inspect) return;
      const found = await api.post("/v1/explain", { model: model.name, text }, { signal });
      reasons.replaceChildren(...found.labels.map(counting));
    } catch (error) {
      if (signal.aborted) return;
      results.replaceChildren(element("p", { class: "warning", role: "alert" }, error.message));
    }
  };
  const typed = (event) => {
    text = event.target.value;
    abort.abort();
    results.classList.add("stale");
    clearTimeout(timer);
    timer = setTimeout(run, PAUSE);
  };
  const box = element("textarea", {
    class: "text",
    "aria-label": "Text",
    placeholder: "Type or paste a text",
    maxlength: settings.characters,
    rows: 4,
    on: { input: typed },
  });
  box.value = text;
  run();
  return element(
    "div",
    { class: "classify" },
    element("h1", { class: "aloud" }, "Classify"),
    models.length > 1 &&
      element(
        "label",
        {},
        "Model ",
        element(
          "select",
          { "data-key": "model", on: { change: (event) => go({ model: event.target.value }) } },
          models.map(({ name }) =>
            element("option", { value: name, selected: name === model.name }, name),
          ),
        ),
      ),
    element("div", { class: "frame" }, box),
    results,
  );
}

function probabilities(labels) {
  const rows = labels.map(({ label, probability }) => ({
    label: plain(label),
    value: probability,
    text: percent(probability),
  }));
  return element(
    "section",
    { class: "picture" },
    element("h2", {}, "Labels"),
    element("p", { class: "how" }, "The model's probability of each label, not its correctness."),
    bars(rows, {
      caption: "Probabilities of the labels",
      limit: 1,
      head: ["label", "probability"],
    }),
  );
}

/** The words of the text; their colours show what each does for a label. */
function counting({ label, words }) {
  const limit = Math.max(FAINTEST, ...words.map(({ effect }) => Math.abs(effect)));
  return element(
    "section",
    { class: "picture" },
    element("h2", {}, "What counted for ", quoted(label)),
    element(
      "p",
      { class: "how" },
      "How far the log-probability of the label falls without the word: ",
      element(
        "span",
        { class: "sample", css: { "background-color": tint(limit, limit, true) } },
        "it speaks for the label",
      ),
      ", ",
      element(
        "span",
        { class: "sample", css: { "background-color": tint(-limit, limit, true) } },
        "against it",
      ),
      ".",
    ),
    element(
      "p",
      { class: "text tinted", tabindex: "0" },
      words.map((word) => [
        element(
          "span",
          { css: { "background-color": tint(word.effect, limit, true) } },
          plain(word.text),
          element("small", {}, signed(word.effect)),
        ),
        " ",
      ]),
    ),
  );
}

function notes(warnings) {
  return warnings.length
    ? element(
        "ul",
        { class: "notes" },
        warnings.map(({ text }) => element("li", {}, "The text ", plain(text), ".")),
      )
    : "";
}
