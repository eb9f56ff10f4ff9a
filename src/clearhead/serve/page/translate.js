// The view "Translate": a text and its translation side by side, while it is typed.

import { element, plain } from "./report/elements.js";
import { counted, percent } from "./report/numbers.js";
import { showAlternatives } from "./alternatives.js";
import { documentsPanel } from "./documents.js";
import { Highlighter } from "./highlight.js";
import { Parts, sent } from "./parts.js";
import { DOUBTFUL, sentenceOf, UNSURE } from "./sentence.js";
import { Terms, termsPanel } from "./terms.js";

const PAUSE = 250; // milliseconds without a key after which the text is translated
const SLOW = 500; // milliseconds after which the page says that it works
const LONG = 600; // characters of a text in smaller letters
const DETECT = "auto";

let view = null;

export function translatorsOf({ models }) {
  return models.filter((model) => model.task === "translation");
}

/** Two panes with a text and its translation; the same ones as long as the page is open. */
export async function translateView(context) {
  view ??= new TranslateView(context);
  view.update(context);
  return view.element;
}

class TranslateView {
  #abort = new AbortController();
  #timer = 0;
  #chosen = new Map(); // translations of sentences with a word that somebody chose

  constructor(context) {
    this.api = context.api;
    this.settings = context.settings;
    this.pairs = translatorsOf(context).map(({ name, source, target }) => ({
      name,
      source: source ?? name,
      target: target ?? "",
    }));
    this.terms = new Terms(() => this.refresh());
    this.options = {
      normalise: option("clearhead.normalise", this.settings.normalise),
      underline: option("clearhead.underline", true),
    };
    this.element = this.#drawn();
    this.parts = new Parts(this.mirror, this.output, (sentence) =>
      this.highlighter.watch(sentence),
    );
    const { inspect } = this.settings;
    this.highlighter = new Highlighter(this, {
      links: (sentence) => this.#links(sentence),
      untranslated: inspect ? (sentence) => this.#untranslated(sentence) : null,
    });
    const open = (event) => {
      const word = event.target.closest(".w");
      if (!word || word.closest(".stale") || !getSelection().isCollapsed) return;
      event.preventDefault();
      this.#open(word);
    };
    this.output.addEventListener("click", open);
    this.output.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") open(event);
    });
    this.element.addEventListener("shown", () => {
      if (matchMedia("(hover: hover)").matches && document.activeElement === document.body)
        this.box.focus();
    });
  }

  #drawn() {
    this.languages = element("div", { class: "languages" });
    this.mirror = element("div", { class: "text mirror", "aria-hidden": "true" });
    this.box = element("textarea", {
      class: "text",
      id: "text",
      "aria-label": "Text",
      "aria-describedby": "counter",
      placeholder: "Type or paste a text",
      autocapitalize: "off",
      on: { input: () => this.#typed() },
    });
    this.output = element("div", {
      class: "text output",
      role: "group",
      "aria-label": "Translation",
      "data-empty": "Its translation",
    });
    this.counter = element("p", { class: "counter", id: "counter" });
    this.work = element("p", { class: "work", role: "status" });
    this.bar = element("progress", {
      max: 1,
      value: 0,
      hidden: true,
      "aria-label": "Translated",
    });
    this.readout = element("p", { class: "readout", "aria-live": "polite" });
    this.problem = element("div", { class: "problem", role: "alert" });
    this.notes = element("section", { class: "notes", "aria-label": "Notes on the translation" });
    this.legend = element("div", { class: "legend" });
    this.termList = element("details", { class: "panel-line" });
    this.clear = quiet("Clear", () => this.setText(""));
    this.copy = quiet("Copy", () => this.#copy());
    return element(
      "div",
      { class: "translate" },
      element("h1", { class: "aloud" }, "Translate"),
      element(
        "div",
        { class: "frame" },
        this.languages,
        element(
          "section",
          { class: "pane", "aria-label": "Text to translate" },
          element(
            "div",
            { class: "scroller" },
            element("div", { class: "layers" }, this.mirror, this.box),
          ),
          element("div", { class: "tools" }, this.counter, this.clear),
        ),
        element(
          "section",
          { class: "pane to", "aria-label": "Translation" },
          this.bar,
          this.output,
          element("div", { class: "tools" }, this.work, this.readout, this.copy),
        ),
      ),
      this.problem,
      this.notes,
      this.legend,
      this.termList,
      documentsPanel(this),
    );
  }

  /** Show what the fragment of the address says. */
  update(context) {
    Object.assign(this, { go: context.go, link: context.link });
    const { source, target, model } = context.state;
    const sources = unique(this.pairs.map((pair) => pair.source));
    const several = sources.length > 1;
    this.source =
      sources.includes(source) || (several && source === DETECT) ? source : sources[0];
    const of = this.pairs.filter((pair) => [DETECT, pair.source].includes(this.source));
    const targets = unique(of.map((pair) => pair.target));
    this.target = targets.includes(target) ? target : targets[0];
    this.fitting = of.filter((pair) => pair.target === this.target);
    this.chosen = this.fitting.find((pair) => pair.name === model) ?? this.fitting[0];
    const key = [this.source, this.target, this.chosen.name].join("\n");
    this.choices = { sources: several ? [DETECT, ...sources] : sources, targets };
    this.#drawLanguages();
    if (key === this.key) return;
    this.key = key;
    this.latest = this.source === DETECT ? null : this.chosen;
    this.refresh();
  }

  /** The translator that is used; null if the language is not detected yet. */
  get pair() {
    if (this.source !== DETECT) return this.chosen;
    const { detected } = this.parts;
    return this.fitting.find((pair) => pair.source === detected) ?? null;
  }

  #drawLanguages() {
    const { sources, targets } = this.choices;
    const focused = document.activeElement?.dataset?.key;
    const detected = this.source === DETECT && this.latest;
    const choice = (key, label, values, current, name = languageName) =>
      element(
        "label",
        { class: key },
        element("span", { class: "aloud" }, label),
        element(
          "select",
          { "data-key": key, on: { change: (event) => this.go({ [key]: event.target.value }) } },
          values.map((value) =>
            element("option", { value, selected: value === current }, name(value)),
          ),
        ),
      );
    const nameOf = (value) =>
      value !== DETECT
        ? languageName(value)
        : detected
          ? `Detected: ${languageName(detected.source)}`
          : "Detect the language";
    const from = this.latest?.source ?? (this.source === DETECT ? "" : this.source);
    const reverse = this.pairs.some(
      (pair) => pair.source === this.target && pair.target === from,
    );
    const models = this.fitting.map((pair) => pair.name);
    this.languages.replaceChildren(
      choice("source", "From", sources, this.source, nameOf),
      element(
        "button",
        {
          type: "button",
          class: "swap",
          "aria-label": "Swap languages and texts",
          title: reverse ? "Swap" : "No model translates the other way",
          disabled: !reverse,
          "data-key": "swap",
          on: { click: () => this.#swap() },
        },
        "⇄",
      ),
      element(
        "div",
        { class: "to" },
        choice(
          "target",
          "To",
          targets,
          this.target,
          (value) => languageName(value) || "translation",
        ),
        this.source !== DETECT &&
          models.length > 1 &&
          choice("model", "Model", models, this.chosen.name, String),
      ),
    );
    if (focused) this.languages.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    this.box.lang = from ?? "";
    this.output.lang = this.target;
    this.output.dir = this.box.dir = "auto";
  }

  #swap() {
    const [text, source] = [this.parts.text, this.latest?.source];
    if (!source) return;
    this.go({ source: this.target, target: source, model: "" });
    this.setText(text);
  }

  setText(text) {
    this.box.value = text;
    this.#typed();
    this.box.focus();
  }

  /** Translate everything anew: languages, terms or options have changed. */
  refresh() {
    this.#chosen.clear();
    this.#changed(true);
    this.#drawTerms();
    this.#drawOptions();
    clearTimeout(this.#timer);
    this.#run();
  }

  #typed() {
    this.#changed(false);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#run(), PAUSE);
  }

  /** What differs from the text that was translated is stale now. */
  #changed(all) {
    this.#abort.abort(new DOMException("the text has changed", "AbortError"));
    const { value } = this.box;
    this.parts.change(value, all);
    this.problem.replaceChildren();
    this.element.classList.toggle("much", value.length > LONG);
    this.output.classList.toggle("empty", !value.trim());
    const most = this.settings.characters;
    const over = value.length - most;
    const numbers = `${value.length.toLocaleString("en")} / ${most.toLocaleString("en")}`;
    this.counter.replaceChildren(
      numbers,
      over > 0 ? `: ${counted(over, "character")} too many` : "",
    );
    this.counter.classList.toggle("over", over > 0);
    this.clear.hidden = !value;
  }

  /** Translate what is missing; parts appear when they are ready. */
  async #run() {
    const { signal } = (this.#abort = new AbortController());
    const { parts, settings, box } = this;
    if (box.value.length > settings.characters) return this.#finished();
    const total = parts.missing.length;
    const slow = setTimeout(() => {
      this.work.replaceChildren("Translating …");
      this.bar.hidden = false;
    }, SLOW);
    signal.addEventListener("abort", () => clearTimeout(slow));
    try {
      for (let tries = 0; parts.missing.trim(); tries++) {
        const before = parts.missing.length;
        try {
          await this.#translateMissing(signal, total);
        } catch (error) {
          // A long text may take longer than a request; then the next one goes on.
          if (parts.missing.length === before) await this.api.retry(error, tries, signal);
          else signal.throwIfAborted();
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#fail(error, () => this.#run());
    }
    clearTimeout(slow);
    this.#finished();
  }

  async #translateMissing(signal, total) {
    const { parts } = this;
    const body = this.#body(sent(parts.missing));
    for await (const { name, data } of this.api.stream("/v1/translate/stream", body, {
      signal,
    })) {
      if (name !== "part") continue;
      parts.add(this.#withChoices(data));
      this.bar.value = 1 - parts.missing.length / total;
      if (this.pair !== this.latest) this.#detected();
    }
    parts.finish();
  }

  #detected() {
    this.latest = this.pair;
    this.#drawLanguages();
    this.#drawTerms();
    if (Object.keys(this.#glossary()).length) this.refresh();
  }

  #finished() {
    this.work.replaceChildren();
    this.bar.hidden = true;
    this.bar.value = 0;
    this.copy.hidden = !this.parts.text.trim();
    this.#drawNotes();
  }

  /** What every request has: the languages, the terms, and whether the text is adapted. */
  get parameters() {
    const { pair } = this;
    const named = pair ? { model: pair.name } : { source: DETECT, target: this.target };
    return { ...named, normalise: this.options.normalise.value, glossary: this.#glossary() };
  }

  #body(text) {
    return { ...this.parameters, text, words: true };
  }

  /** The terms of the pair; those of the latest one while the language is being detected. */
  #glossary() {
    return this.latest ? this.terms.of(pairName(this.latest)) : {};
  }

  /** A part of an answer, with the translations of sentences in which a word was chosen. */
  #withChoices(found) {
    let { text } = found;
    let done = 0;
    const sentences = found.sentences.map((sentence) => {
      const chosen = this.#chosen.get(sentence.source) ?? sentence;
      const at = text.indexOf(sentence.text, done);
      if (at < 0) return sentence;
      text = text.slice(0, at) + chosen.text + text.slice(at + sentence.text.length);
      done = at + chosen.text.length;
      return chosen;
    });
    return { ...found, text, sentences };
  }

  #about({ texts }) {
    const { normalise } = this.options;
    return [this.pair.name, texts.source, texts.target, normalise.value];
  }

  async #links(sentence) {
    const [model, source, target, normalise] = this.#about(sentence);
    if (!target.trim()) return [];
    const body = { model, sources: [source], targets: [target], normalise };
    return (await this.api.post("/v1/align", body)).alignments[0];
  }

  async #untranslated(sentence) {
    const [model, text, translation, normalise] = this.#about(sentence);
    if (!translation.trim()) return [];
    const body = { model, text, translation, normalise };
    return (await this.api.post("/v1/explain", body)).untranslated;
  }

  /** Show what could be in the place of a word. */
  #open(word) {
    const sentence = sentenceOf(word);
    const number = Number(word.dataset.number);
    const [model, text, translation, normalise] = this.#about(sentence);
    const { inspect } = this.settings;
    const body = { model, text, translation, word: number, normalise };
    this.highlighter.focus(word);
    showAlternatives(word, {
      text: word.textContent,
      source: this.highlighter.partners,
      found: inspect ? this.api.post("/v1/alternatives", body) : null,
      choose: (each) => this.#choose(sentence, number, each.word),
      always: (term, wanted) => this.terms.set(pairName(this.pair), term, wanted),
      inside: inspect ? this.link({ view: "inside", model, text }) : null,
    });
  }

  /** Translate a sentence anew from a word on. */
  async #choose(sentence, number, word) {
    const { start } = sentence.words.target[number];
    const prefix = sentence.texts.target.slice(0, start) + word;
    const span = sentence.spans.target;
    span.classList.add("stale");
    try {
      const body = { ...this.#body(sentence.texts.source), model: this.pair.name, prefix };
      const { translations } = await this.api.post("/v1/translate", body);
      const [found] = translations[0].sentences;
      this.#chosen.set(sentence.texts.source, found);
      sentence.take(found);
      sentence.show("source", sentence.spans.source?.textContent);
      sentence.show("target");
      this.parts.replace(sentence);
      this.highlighter.focus(sentence.split("target")[number]);
    } catch (error) {
      this.#fail(error, () => this.#choose(sentence, number, word));
    }
    span.classList.remove("stale");
  }

  #fail(error, again) {
    const { problem = { what: error.message } } = error;
    this.problem.replaceChildren(
      element(
        "div",
        { class: "warning" },
        element("p", {}, `Not translated: ${problem.what}.`),
        element("p", {}, [problem.why, problem.todo].filter(Boolean).join("; ")),
        quiet("Try again", () => {
          this.problem.replaceChildren();
          again();
        }),
      ),
    );
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(this.parts.text);
    } catch {
      // Without a secure connection there is no clipboard, but what is selected can be copied.
      getSelection().selectAllChildren(this.output);
      document.execCommand("copy");
      getSelection().removeAllRanges();
    }
    this.work.replaceChildren("Copied");
    setTimeout(() => this.work.replaceChildren(), 2000);
  }

  /** The warnings, each once. */
  #drawNotes() {
    const counts = new Map();
    for (const { text } of this.parts.warnings) counts.set(text, (counts.get(text) ?? 0) + 1);
    const items = [...counts].map(([text, count]) =>
      element(
        "li",
        {},
        `${count > 1 ? `${count} sentences: each` : "A sentence"} `,
        plain(text),
        ".",
      ),
    );
    const isStrange = this.parts.warnings.some((each) => each.kind === "characters");
    const few = items.length <= 3;
    const list = element("ul", {}, items);
    this.notes.hidden = !items.length;
    this.notes.replaceChildren(
      few
        ? list
        : element("details", {}, element("summary", {}, counted(items.length, "note")), list),
      isStrange && !this.options.normalise.value
        ? element(
            "p",
            {},
            "The text looks different from the texts that the model was trained on. ",
            quiet("Adapt it", () => this.#set("normalise", true)),
          )
        : "",
    );
  }

  #set(name, value) {
    this.options[name].value = value;
    localStorage.setItem(this.options[name].stored, value ? "1" : "");
    if (name === "normalise") this.refresh();
    this.#drawOptions();
  }

  /** The options, and what the underlined words are. */
  #drawOptions() {
    const check = (name, ...text) =>
      element(
        "label",
        { class: "check" },
        element("input", {
          type: "checkbox",
          checked: this.options[name].value,
          "data-key": name,
          on: { change: (event) => this.#set(name, event.target.checked) },
        }),
        text,
      );
    const focused = document.activeElement?.dataset?.key;
    this.output.classList.toggle("underlined", this.options.underline.value);
    this.legend.replaceChildren(
      check(
        "underline",
        " Underline by confidence: ",
        element("span", { class: "sample unsure" }, "word"),
        ` below ${percent(UNSURE)}, `,
        element("span", { class: "sample doubtful" }, "word"),
        ` below ${percent(DOUBTFUL)}. It is the model's probability, not correctness.`,
      ),
      check("normalise", " Adapt the text to those that the model was trained on"),
      element(
        "p",
        {},
        element("span", { class: "sample dropped" }, "word"),
        " perhaps not translated (after you have pointed at its sentence)",
      ),
    );
    if (focused) this.legend.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  #drawTerms() {
    const name = this.pair && pairName(this.pair);
    const count = Object.keys(this.#glossary()).length;
    this.termList.replaceChildren(
      element("summary", {}, `Always translate as …${count ? ` (${count})` : ""}`),
      ...(name
        ? termsPanel(this.terms, name).filter(Boolean)
        : [
            element(
              "p",
              { class: "how" },
              "Terms belong to a pair of languages: choose the language.",
            ),
          ]),
    );
  }
}

function pairName({ source, target }) {
  return `${source} ${target}`;
}

function option(stored, standard) {
  const found = localStorage.getItem(stored);
  return { stored, value: found === null ? standard : found === "1" };
}

function unique(values) {
  return [...new Set(values)];
}

export function quiet(text, click) {
  return element("button", { type: "button", class: "quiet", on: { click } }, text);
}

/** The name of a language in BCP 47. */
function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}
