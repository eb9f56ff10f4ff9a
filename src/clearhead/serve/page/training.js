// The checkpoints that the training run kept: the output at each.

import { table, nameCell, numberCell } from "./report/charts.js";
import { element, plain } from "./report/elements.js";
import { percent } from "./report/numbers.js";
import { action, fill, slider } from "./controls.js";

/** The part "While it was trained"; empty if there is nothing to compare with. */
export class Training {
  constructor(place) {
    this.place = place;
    this.found = new Map();
  }

  /** `ask(checkpoint)` gives the answer for a checkpoint, null: the model itself; `fail` shows an error. */
  show({ answer, state, go, ask, fail, key }) {
    if (key !== this.key) this.found = new Map();
    Object.assign(this, { answer, state, go, ask, fail, key });
    this.draw();
  }

  /** The checkpoints in the order of training, and last the model itself. */
  get points() {
    const others = this.answer.checkpoints.filter((each) => !each.is_model);
    return [...others.map((each) => ({ ...each, title: titleOf(each) })), { name: "", title: "final" }];
  }

  draw() {
    const { points, state, go } = this;
    if (points.length < 2) {
      this.place.replaceChildren();
      return;
    }
    const current = Math.max(0, points.findIndex(({ name }) => name === (state.checkpoint ?? "")));
    fill(
      this.place,
      element("h2", { id: "training" }, "While it was trained"),
      element(
        "p",
        { class: "how" },
        "The training run kept these weights. The slider puts them into the whole page.",
      ),
      element(
        "div",
        { class: "controls" },
        slider(
          "checkpoint",
          "Weights",
          { min: 0, max: points.length - 1, step: 1, value: current },
          (value) => points[value].title,
          (value) => go({ checkpoint: points[value].name }),
        ),
        action("all-checkpoints", () => this.all().catch(this.fail), { class: "pill" }, "Show the output of each"),
      ),
      this.found.size > 0 &&
        table(
          "Output of each checkpoint",
          ["weights", "output", "probability"],
          points.map(({ name, title }, i) => {
            const output = this.found.get(name);
            return {
              isCurrent: i === current,
              cells: [
                nameCell(plain(title)),
                output ? plain(output.text || "nothing") : "…",
                numberCell(output ? percent(output.probability) : ""),
              ],
            };
          }),
        ),
    );
  }

  /** The output of each checkpoint, one after the other. */
  async all() {
    const { key } = this;
    for (const { name } of this.points) {
      const answer = await this.ask(name || null);
      if (key !== this.key) return;
      this.found.set(name, answer.output);
      this.draw();
    }
  }
}

function titleOf({ name, step }) {
  return step === null ? name : `step ${step.toLocaleString("en")}${/^step-/.test(name) ? "" : ` (${name})`}`;
}
