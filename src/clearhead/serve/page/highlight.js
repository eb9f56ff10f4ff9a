// What came from what: pointing at a word, or moving to it with the keyboard, lights up the words
// on the other side that belong to it.

import { quoted } from "./report/elements.js";
import { percent } from "./report/numbers.js";
import { sentenceOf, wordsOf } from "./sentence.js";

const REST = 400; // milliseconds on a sentence after which more is asked about it

/** Lights up words of a text box, by a mirror behind it, and of the translation. */
export class Highlighter {
  #lit = [];
  #turn = 0;
  #timer = 0;

  /**
   * @param {object} places - box, mirror, output, readout: elements; parts: a `Parts`.
   * @param {object} ask - links and untranslated: functions of a sentence that give promises of the
   *   answers; untranslated may be null.
   */
  constructor({ box, mirror, output, readout, parts }, ask) {
    Object.assign(this, { box, mirror, output, readout, parts, ask });
    output.addEventListener("pointerover", (event) => this.#at(event.target));
    output.addEventListener("focusin", (event) => this.#at(event.target));
    output.addEventListener("focusout", () => this.clear());
    output.addEventListener("keydown", (event) => this.#move(event));
    for (const place of [box, output]) place.addEventListener("pointerleave", () => this.clear());
    box.addEventListener("pointermove", (event) => this.#under(event));
    box.addEventListener("input", () => this.clear());
    for (const name of ["click", "keyup"]) box.addEventListener(name, (e) => this.#caret(e));
    this.observer = new IntersectionObserver((entries) => this.#seen(entries), {
      rootMargin: "50% 0px",
    });
  }

  /** Show the words of a sentence when it comes into sight. */
  watch(sentence) {
    if (sentence.spans.target) this.observer.observe(sentence.spans.target);
  }

  #seen(entries) {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      this.observer.unobserve(target);
      const [first] = sentenceOf(target).split("target");
      // One word is reached by the Tab key; arrow keys go on from there.
      if (first && !this.output.querySelector('[tabindex="0"]')) first.tabIndex = 0;
    }
  }

  /** The word or sentence that an element of a side is. */
  #at(node) {
    const sentence = sentenceOf(node);
    if (!sentence || node.closest(".stale")) return;
    const { side } = sentence.spans.target?.contains(node)
      ? { side: "target" }
      : { side: "source" };
    sentence.split(side);
    const number = Number(node.closest(".w")?.dataset.number ?? -1);
    if (number >= 0) this.light(sentence, side, number);
  }

  /** The pointer is over the text box: the word is in the mirror. */
  #under({ clientX, clientY }) {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const found = () =>
        document
          .elementsFromPoint(clientX, clientY)
          .find((each) => each !== this.mirror && this.mirror.contains(each));
      const sentence = sentenceOf(found());
      if (!sentence) return this.clear();
      sentence.split("source");
      this.#at(found());
    });
  }

  /** The cursor is in a word of the text box. */
  #caret(event) {
    const moves = event.type === "click" || /^(Arrow|Home|End|Page)/.test(event.key);
    const { selectionStart, selectionEnd } = this.box;
    if (!moves || selectionStart !== selectionEnd) return;
    const found = this.parts.sentenceAt(selectionStart);
    if (!found) return this.clear();
    const { sentence, position } = found;
    const number = wordsOf(sentence.spans.source.textContent).findIndex(
      (word) => word.start <= position && position <= word.end,
    );
    if (number >= 0) this.light(sentence, "source", number);
  }

  /** Light up a word and what belongs to it, which is asked for once. */
  async light(sentence, side, number) {
    const word = sentence.split(side)[number];
    if (!word || word === this.#lit[0]) return;
    this.clear();
    const turn = this.#turn;
    const other = side === "source" ? "target" : "source";
    this.#add(word, "pointed");
    this.#say(sentence, side, number);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#untranslated(sentence, turn), REST);
    const links = await sentence.about("links", this.ask.links).catch(() => []);
    if (turn !== this.#turn) return;
    const partners = sentence.partners(side, number, links).map((n) => sentence.split(other)[n]);
    for (const partner of partners) if (partner) this.#add(partner, "partner");
    this.#say(sentence, side, number, partners);
  }

  async #untranslated(sentence, turn) {
    if (!this.ask.untranslated) return;
    const ranges = await sentence.about("untranslated", this.ask.untranslated).catch(() => []);
    sentence.mark(ranges);
    if (turn === this.#turn && this.#lit[0]?.matches(".dropped"))
      this.readout.append(" It is perhaps not translated.");
  }

  #add(word, name) {
    word.classList.add(name);
    this.#lit.push(word);
  }

  /** The words that belong to the one that is lit up, as a text. */
  get partners() {
    return this.#lit
      .slice(1)
      .map((word) => word.textContent)
      .join(" ");
  }

  clear() {
    this.#turn++;
    clearTimeout(this.#timer);
    for (const word of this.#lit) word.classList.remove("pointed", "partner");
    this.#lit = [];
    this.readout.replaceChildren();
  }

  /** The readout, for those who see no colours. */
  #say(sentence, side, number, partners = []) {
    const word = sentence.split(side)[number];
    const probability = side === "target" ? sentence.probabilities?.[number] : undefined;
    const names = partners
      .filter(Boolean)
      .flatMap((each, i) => [i ? ", " : "", quoted(each.textContent)]);
    this.readout.replaceChildren(
      quoted(word.textContent),
      probability === undefined ? "" : ` has a probability of ${percent(probability)}`,
      names.length && probability !== undefined ? " and" : "",
      names.length ? (side === "target" ? " comes from " : " becomes ") : "",
      ...names,
      ".",
    );
    if (word.matches(".dropped")) this.readout.append(" It is perhaps not translated.");
  }

  /** Arrow keys move over the words of the translation. */
  #move(event) {
    const word = event.target.closest(".w");
    if (!word || event.ctrlKey || event.altKey || event.metaKey) return;
    const forward = getComputedStyle(this.output).direction === "rtl" ? -1 : 1;
    const next = {
      ArrowRight: () => this.#words(word, forward).next().value,
      ArrowLeft: () => this.#words(word, -forward).next().value,
      ArrowDown: () => this.#below(word, 1),
      ArrowUp: () => this.#below(word, -1),
      Home: () => [...this.#words(word, -1)].pop(),
      End: () => [...this.#words(word, 1)].pop(),
    }[event.key];
    if (!next) return;
    event.preventDefault();
    this.focus(next());
  }

  /** Let the keyboard be at a word of the translation. */
  focus(word) {
    if (!word) return;
    for (const stop of this.output.querySelectorAll('[tabindex="0"]')) stop.tabIndex = -1;
    word.tabIndex = 0;
    word.focus();
  }

  /** The words after (way = 1) or before (-1) a word; sentences are divided as they come. */
  *#words(word, way) {
    const sentences = [...this.output.querySelectorAll(".sentence")];
    let index = sentences.indexOf(word.closest(".sentence"));
    let words = sentenceOf(sentences[index]).split("target");
    let number = words.indexOf(word) + way;
    for (;;) {
      if (words[number]) yield words[number];
      else {
        index += way;
        if (!sentences[index]) return;
        words = sentenceOf(sentences[index]).split("target");
        number = way > 0 ? -1 : words.length;
      }
      number += way;
    }
  }

  /** The closest word in the next line (way = 1) or the line before (-1). */
  #below(word, way) {
    const here = word.getBoundingClientRect();
    const centre = (here.left + here.right) / 2;
    let [best, line, distance] = [null, null, Infinity];
    for (const next of this.#words(word, way)) {
      const there = next.getBoundingClientRect();
      if (Math.abs(there.top - here.top) < here.height / 2) continue;
      line ??= there.top;
      if (Math.abs(there.top - line) >= here.height / 2) break;
      const away = Math.abs((there.left + there.right) / 2 - centre);
      if (away < distance) [best, distance] = [next, away];
    }
    return best;
  }
}
