// The view "Look inside": a sentence, the model as a picture, what happens when parts of it are
// switched off, how the output is written, and the views of a report.

import { isDark } from "./report/colours.js";
import { element, plain, quoted } from "./report/elements.js";
import { decimal, percent } from "./report/numbers.js";
import { Report } from "./report/report.js";
import { fragmentOf, readState } from "./report/state.js";
import { action, choice, fill } from "./controls.js";
import { Decoding } from "./decoding.js";
import { diagram, headEffects } from "./diagram.js";
import { editsOf, isEdited, listedEdits, NEW_MODEL, NEW_TEXT, sentEdits, UNDO } from "./edits.js";
import { LiveData } from "./live_data.js";
import { attentionTable } from "./masks.js";
import { exampleOf, Tour } from "./tour.js";
import { Training } from "./training.js";

const TYPING = 450; // milliseconds after the last key
const RESTING = 250; // milliseconds after an answer until its details are asked for

let shownView = null;

/** A sentence, and what happens inside the model. */
export async function insideView(context) {
  shownView ??= new InsideView();
  shownView.show(context);
  return shownView.element;
}

/** The view; its element stays the same, so that what has the focus keeps it. */
class InsideView {
  constructor() {
    const part = (name, tag = "section") => element(tag, { class: `inside-${name}` });
    this.parts = {
      tour: part("tour", "aside"),
      input: part("input", "div"),
      result: part("result", "header"),
      model: part("model"),
      decoding: part("decoding"),
      training: part("training"),
      report: part("report"),
    };
    this.problem = element("p", { class: "warning", role: "alert", hidden: true });
    this.text = element("input", {
      type: "text",
      id: "sentence",
      class: "sentence-input",
      maxlength: 2000,
      autocomplete: "off",
      spellcheck: "false",
      "data-key": "sentence",
      on: { input: () => this.typed(TYPING), change: () => this.typed(0) },
    });
    this.decoding = new Decoding(this.parts.decoding);
    this.training = new Training(this.parts.training);
    this.tour = new Tour(this.parts.tour, this.parts);
    this.said = element("p", { class: "aloud", role: "status" });
    const { input, result, tour, ...rest } = this.parts;
    this.element = element(
      "div",
      { class: "inside" },
      input,
      tour,
      this.problem,
      result,
      this.said,
      Object.values(rest),
    );
    this.element.addEventListener("focusin", ({ target }) => {
      this.focused = target;
    });
    this.details = null;
  }

  /** Show the state of the address. */
  show(context) {
    Object.assign(this, context);
    const { models, state } = this;
    this.known = models.filter(({ input }) => input === "text");
    this.model = this.known.find(({ name }) => name === state.model) ?? this.known[0];
    if (document.activeElement !== this.text) this.text.value = state.text ?? "";
    this.drawInput();
    const asked = JSON.stringify(this.request("quick"));
    if (!this.model || !state.text?.trim()) this.empty();
    else if (asked !== this.asked) this.ask(asked);
    else this.draw();
    // A page that replaces its content takes the focus away.
    requestAnimationFrame(() => {
      if (document.activeElement === document.body && this.focused?.isConnected)
        this.focused.focus({ preventScroll: true });
    });
  }

  /** Change the state without a new entry in the history of the browser. */
  replace(changes) {
    location.replace(this.link(changes));
  }

  typed(delay) {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => {
      const text = this.text.value;
      if (text !== (this.state.text ?? "")) this.replace({ ...NEW_TEXT, text });
    }, delay);
  }

  request(detail, checkpoint = this.state.checkpoint) {
    const { state, model } = this;
    const search = {
      ...(state.temp ? { temperature: Number(state.temp), seed: Number(state.seed || 1) } : {}),
      ...(state.beam && !state.temp ? { beam_size: Number(state.beam) } : {}),
    };
    return {
      model: model?.name,
      text: state.text ?? "",
      search,
      edits: sentEdits(editsOf(state)),
      detail,
      checkpoint: checkpoint || null,
      compare: state.beside || null,
    };
  }

  /** Ask the server: first for the output, then, when nothing else is asked, for the details. */
  async ask(asked) {
    this.asked = asked;
    clearTimeout(this.waiting);
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const post = (body) => this.api.post("/v1/inspect", body, { signal: asking.signal });
    this.element.classList.add("waiting");
    if (!this.answer) fill(this.parts.result, element("p", { class: "how", role: "status" }, "Looking … The first look loads the model."));
    try {
      const answer = await post(this.request("quick"));
      this.answer = answer;
      this.problem.hidden = true;
      this.element.classList.remove("waiting");
      this.isFresh = false;
      this.draw();
      await new Promise((resolve) => {
        this.waiting = setTimeout(resolve, RESTING);
      });
      const { details } = await post(this.request("full"));
      await this.take(details);
      this.draw();
    } catch (error) {
      if (asking.signal.aborted) return;
      this.asked = null;
      this.element.classList.remove("waiting");
      if (!this.answer) this.parts.result.replaceChildren();
      this.fail(error);
    }
  }

  fail(error) {
    this.problem.hidden = false;
    this.problem.replaceChildren(error.message);
    if (isEdited(editsOf(this.state)))
      this.problem.append(" ", action("problem-undo", () => this.go(UNDO), { class: "pill" }, "Undo all"));
  }

  /** Take the details of the current answer. */
  async take({ report, blobs }) {
    const data = new LiveData({ report, blobs });
    const [item] = report.items;
    const effects = await headEffects(data, item);
    this.details = { data, report, item, model: report.models[0], effects };
    this.isFresh = true;
  }

  empty() {
    this.asking?.abort();
    this.asked = null;
    this.answer = this.details = null;
    this.element.classList.remove("waiting");
    for (const name of ["model", "decoding", "training", "report"]) this.parts[name].replaceChildren();
    const example = this.model && exampleOf(this.model);
    fill(
      this.parts.result,
      element("h1", {}, "What happens inside the model?"),
      element(
        "p",
        { class: "lead" },
        "Type a sentence. You see what the model makes of it, and which of its parts matter: switch them off, and it answers anew.",
      ),
      example &&
        element(
          "p",
          {},
          action("example", () => this.replace({ text: example }), { class: "pill" }, "Try: ", plain(example)),
        ),
    );
    this.tour.show(this.context());
  }

  /** What all parts get. */
  context() {
    const { answer, state, details, model } = this;
    return {
      answer,
      state,
      go: this.go,
      known: model,
      isFresh: this.isFresh,
      ...(details ?? { data: null, report: null, item: null, model: null, effects: null }),
    };
  }

  async draw() {
    const { answer, parts, state } = this;
    if (!answer) return;
    const context = this.context();
    this.drawResult();
    this.tour.show(context);
    const drawing = (this.drawing = Symbol("drawing"));
    const table = await attentionTable(context);
    if (drawing !== this.drawing) return;
    const { stacks, note } = diagram(context);
    fill(
      parts.model,
      element("h2", {}, "The model"),
      element(
        "p",
        { class: "how" },
        "Data go up, as in figure 1 of the paper. Each square is a head; its colour is what it does for this output.",
      ),
      element(
        "div",
        { class: "model-grid" },
        stacks,
        element("div", { class: this.isFresh ? "model-notes" : "model-notes old" }, note, table),
      ),
    );
    if (answer.output.steps.length) this.decoding.show(context);
    else parts.decoding.replaceChildren();
    this.training.show({
      ...context,
      key: JSON.stringify([state.model, state.text]),
      ask: (checkpoint) => this.api.post("/v1/inspect", this.request("quick", checkpoint)),
      fail: (error) => this.fail(error),
    });
    this.drawReport();
  }

  drawInput() {
    const { state, known, model, go, parts } = this;
    const names = known.map(({ name, source, target }) => ({
      value: name,
      text: source && target ? `${name} (${source} → ${target})` : name,
    }));
    const alike = known.filter(
      (other) => other.task === model?.task && other.source === model?.source,
    );
    const besides = [
      { value: "", text: "no other model" },
      ...alike.map(({ name }) => ({
        value: name,
        text: name === model.name ? "the same, nothing switched off" : name,
      })),
    ];
    const label = element("label", { for: "sentence" }, "Sentence");
    if (!this.text.isConnected || !parts.input.contains(this.text))
      parts.input.replaceChildren(label, this.text, element("div", { class: "controls" }));
    fill(
      parts.input.lastElementChild,
      choice("model", "Model", names, model?.name, (name) => go({ ...NEW_MODEL, model: name })),
      choice("beside", "Beside it", besides, state.beside ?? "", (beside) => go({ beside })),
      action(
        "tour",
        () => go({ tour: state.tour ? "" : "1" }),
        { class: "pill", "aria-expanded": String(Boolean(state.tour)) },
        state.tour ? "Leave the tour" : "Guided tour",
      ),
    );
  }

  /** The headline: the sentence, the output, its probability, and what the edits have changed. */
  drawResult() {
    const { answer, state, parts, go } = this;
    const { source, output, before, before_now: beforeNow, other } = answer;
    const edits = editsOf(state);
    const hidden = new Set(edits.words);
    const words = source.words.map(([text], i) => [
      i ? " " : "",
      hidden.has(i) ? element("s", {}, plain(text)) : plain(text),
    ]);
    const isLong = source.text.length + output.text.length > 75;
    const chips = listedEdits(state, answer).map(({ text, changes }, i) =>
      element(
        "li",
        {},
        action(
          `chip.${i}`,
          () => go(changes),
          { class: "chip off", "aria-label": `Switch on again: ${text}` },
          plain(text),
          element("span", { "aria-hidden": "true" }, " ×"),
        ),
      ),
    );
    this.said.replaceChildren(`Output: ${output.text || "nothing"}, ${percent(output.probability)}`);
    fill(
      parts.result,
      element(
        "h1",
        { class: isLong ? "long" : null },
        words,
        " → ",
        element("span", { class: "output" }, changedWords(output.text || "nothing", before?.text)),
      ),
      element(
        "p",
        { class: "lead" },
        "The probability of this output is ",
        element("strong", {}, percent(output.probability)),
        ". ",
        before && [
          before.text === output.text
            ? ["The output is the same as before; it had ", element("strong", {}, percent(before.probability)), "."]
            : [
                "Before it was ",
                quoted(before.text || "nothing"),
                ` with ${percent(before.probability)}`,
                beforeNow === null ? "." : `, which has only ${percent(beforeNow)} left.`,
              ],
        ],
      ),
      output.labels.length > 1 && labelBars(output, before),
      other &&
        element(
          "p",
          { class: "beside" },
          element("small", {}, plain(state.beside), ": "),
          changedWords(other.text || "nothing", output.text),
          ` with ${percent(other.probability)} (log-probability ${decimal(other.log_probability)})`,
        ),
      isEdited(edits) &&
        element(
          "div",
          { class: "switched-off" },
          element("span", { class: "side-name" }, "Switched off"),
          element("ul", {}, chips),
          action("undo", () => go(UNDO), { class: "pill" }, "Undo all"),
        ),
    );
  }

  /** The views of the report, for this sentence. */
  drawReport() {
    const { parts, details, isFresh } = this;
    parts.report.classList.toggle("old", !isFresh);
    if (!details) {
      fill(parts.report, element("h2", {}, "In detail"), element("p", { class: "how" }, "Being computed …"));
      return;
    }
    const theme = isDark();
    if (this.drawnReport !== details.report) {
      this.drawnReport = details.report;
      const place = element("div", {});
      parts.report.replaceChildren(element("h2", {}, "In detail"), place);
      this.report = new Report(details.data, details.report, place, {
        // Two models are beside each other until the reader chooses otherwise.
        read: () => readState(this.state.report ?? (this.state.beside ? "compare=2" : "")),
        link: (state) => this.link({ report: fragmentOf(state).slice(1) }),
        go: (state) => this.go({ report: fragmentOf(state).slice(1) }),
      });
      new ResizeObserver(() => this.report.width && this.report.resized()).observe(place);
    } else if (this.drawnState === this.state.report && this.drawnTheme === theme) return;
    [this.drawnState, this.drawnTheme] = [this.state.report, theme];
    this.report.draw();
  }
}

/** The labels of a text, now and before. */
function labelBars({ labels }, before) {
  const earlier = new Map(before?.labels.map(({ label, probability }) => [label, probability]));
  return element(
    "ol",
    { class: "labels" },
    labels.slice(0, 6).map(({ label, probability }) =>
      element(
        "li",
        {},
        element("span", {}, plain(label)),
        element("span", { class: "number" }, percent(probability)),
        element(
          "span",
          { class: "track", "aria-hidden": "true" },
          element("span", { class: "bar", css: { "inline-size": `${100 * probability}%` } }),
        ),
        earlier.has(label) && element("small", {}, `before ${percent(earlier.get(label))}`),
      ),
    ),
  );
}

/** A text whose words are marked that another text does not have in this order. */
export function changedWords(text, other) {
  if (other === undefined || other === null) return [plain(text)];
  const [own, theirs] = [text.split(" "), other.split(" ")];
  // The length of the longest common subsequence of the ends.
  const lengths = Array.from({ length: own.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = own.length - 1; i >= 0; i--)
    for (let j = theirs.length - 1; j >= 0; j--)
      lengths[i][j] =
        own[i] === theirs[j]
          ? lengths[i + 1][j + 1] + 1
          : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  const found = [];
  for (let i = 0, j = 0; i < own.length; i++) {
    while (j < theirs.length && own[i] !== theirs[j] && lengths[i][j + 1] >= lengths[i][j]) j++;
    const isCommon = own[i] === theirs[j] && lengths[i][j] === lengths[i + 1][j + 1] + 1;
    if (isCommon) j++;
    found.push(i ? " " : "", isCommon ? plain(own[i]) : element("mark", {}, plain(own[i])));
  }
  return found;
}
