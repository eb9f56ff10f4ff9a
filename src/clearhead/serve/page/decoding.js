// How the output is written, step by step: the best words, the search, its settings.

import { bars } from "./report/charts.js";
import { element, plain, quoted } from "./report/elements.js";
import { counted, decimal, percent } from "./report/numbers.js";
import { action, fill, slider } from "./controls.js";

const PAUSE = 1200; // milliseconds between two steps

/** The steps of decoding. Which step is shown is not part of the address. */
export class Decoding {
  constructor(place) {
    this.place = place;
    this.step = 0;
  }

  /** Show an answer; `go` changes the state. */
  show({ answer, state, go }) {
    Object.assign(this, { answer, state, go });
    this.step = Math.min(this.step, this.count - 1);
    this.draw();
  }

  get count() {
    const { output, greedy } = this.answer;
    return Math.max(output.steps.length, greedy?.steps.length ?? 0);
  }

  draw() {
    const { answer } = this;
    const { output, greedy, beam_size: beam, temperature } = answer;
    const isDrawn = temperature !== null;
    const title = isDrawn ? `Drawn at temperature ${temperature.toFixed(1)}` : `Beam of ${beam}`;
    fill(
      this.place,
      element("h2", { id: "decoding" }, "Word by word"),
      element(
        "p",
        { class: "how" },
        "The decoder writes one token at a time. At each step it gives every token of its vocabulary a probability; the search takes one, and the decoder reads it at the next step.",
      ),
      this.settings(isDrawn),
      this.stepper(),
      element(
        "div",
        { class: greedy ? "paths" : "paths single" },
        this.path(greedy ? title : "Greedy search", output, isDrawn),
        greedy && this.path("Greedy search", greedy, false),
      ),
    );
  }

  settings(isDrawn) {
    const { answer, state, go } = this;
    const beam = slider(
      "beam",
      "Beam size",
      { min: 1, max: 10, step: 1, value: answer.beam_size ?? 1 },
      (value) => (isDrawn ? "off" : value > 1 ? String(value) : "1: greedy"),
      (value) => go({ beam: String(value), temp: "" }),
    );
    const temperature = slider(
      "temp",
      "Temperature",
      { min: 0, max: 2, step: 0.1, value: answer.temperature ?? 0 },
      (value) => (value ? value.toFixed(1) : "off"),
      (value) => go({ temp: value ? value.toFixed(1) : "" }),
    );
    return element(
      "div",
      { class: "controls" },
      beam,
      temperature,
      isDrawn &&
        action(
          "draw",
          () => go({ seed: String(Number(state.seed || 1) + 1) }),
          { class: "pill" },
          "Draw again",
        ),
    );
  }

  stepper() {
    const move = (to) => () => {
      this.stop();
      this.to(to);
    };
    const last = this.count - 1;
    return element(
      "div",
      { class: "stepper", role: "group", "aria-label": "Steps of decoding" },
      action("back", move(this.step - 1), { class: "pill", disabled: this.step === 0 }, "← Back"),
      action(
        "next",
        move(this.step + 1),
        { class: "pill strong", disabled: this.step >= last },
        "Next step →",
      ),
      action("play", () => this.play(), { class: "pill" }, this.timer ? "Pause" : "Play"),
      element(
        "span",
        { "aria-live": this.timer ? "off" : "polite" },
        `Step ${this.step + 1} of ${this.count}`,
      ),
    );
  }

  to(step) {
    this.step = Math.max(0, Math.min(this.count - 1, step));
    this.draw();
  }

  play() {
    if (this.timer) this.stop();
    else {
      if (this.step === this.count - 1) this.step = 0;
      this.timer = setInterval(() => {
        if (this.step < this.count - 1 && this.place.isConnected) this.to(this.step + 1);
        else this.stop();
      }, PAUSE);
    }
    this.draw();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.place.isConnected) this.draw();
  }

  /** One way through the steps, up to the one that is shown. */
  path(title, output, isDrawn) {
    const { step } = this;
    const word = ({ piece }, i) =>
      element(
        "li",
        {},
        action(
          `${title}.${i}`,
          () => {
            this.stop();
            this.to(i);
          },
          {
            class: `word${i > step ? " later" : ""}`,
            "aria-current": i === step ? "step" : null,
            "aria-label": `step ${i + 1}: ${piece}`,
          },
          plain(piece),
        ),
      );
    const head = element(
      "header",
      {},
      element("h3", {}, title),
      element(
        "p",
        { class: "facts" },
        `probability ${percent(output.probability)}, log-probability ${decimal(output.log_probability)}, ${counted(output.steps.length, "token")}${output.finished ? "" : ", cut off before its end"}`,
      ),
    );
    const words = element("ol", { class: "written-words" }, output.steps.map(word));
    if (step >= output.steps.length)
      return element("section", { class: "path" }, head, words, element("p", { class: "how" }, "It ended before this step."));
    const { piece, probability, best } = output.steps[step];
    const values = best.map((each) => (isDrawn ? each.drawn : each.probability));
    const rows = best.map((each, i) => ({
      label: plain(each.piece),
      value: values[i],
      text: percent(values[i]),
      note: isDrawn ? `model ${percent(each.probability)}` : "",
      current: each.piece === piece,
    }));
    const isBest = best[0].piece === piece;
    return element(
      "section",
      { class: "path" },
      head,
      words,
      element(
        "p",
        { class: "how" },
        "Step ",
        step + 1,
        " takes ",
        quoted(piece),
        ` with ${percent(probability)}`,
        isBest ? "." : isDrawn ? ", by chance." : ", which is not the best here: the whole output counts.",
      ),
      bars(rows, { caption: `Best tokens of step ${step + 1}`, limit: 1, head: ["token", "probability"] }),
    );
  }
}
