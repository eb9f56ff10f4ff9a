// A sentence and its translation: its words on both sides, and what is known of them.

import { element } from "./report/elements.js";

const UNSPACED =
  "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff" +
  "\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff";
const WORD = new RegExp(
  `[${UNSPACED}]|(?:(?![${UNSPACED}])[\\p{L}\\p{N}_])+|[^\\p{L}\\p{N}_\\s]`,
  "gu",
); // as `word_ranges` of the server

export const [UNSURE, DOUBTFUL] = [0.5, 0.2]; // words that are less probable are underlined

/** The words of a text: {start, end}, and `at`, the start as the server counts characters. */
export function wordsOf(text) {
  return Array.from(text.matchAll(WORD), (found) => ({
    start: found.index,
    end: found.index + found[0].length,
    at: characters(text, found.index),
  }));
}

/** The number of characters up to a position; JavaScript counts some characters twice. */
function characters(text, end) {
  const before = text.slice(0, end);
  return /[\ud800-\udbff]/.test(before) ? [...before].length : end;
}

const owners = new WeakMap(); // the sentence of an element

/** The sentence that an element shows, or is a word of. */
export function sentenceOf(node) {
  const found = node?.closest?.(".sentence");
  return (found && owners.get(found)) ?? null;
}

/** A sentence of the answer of /v1/translate: {source, text, words}. */
export class Sentence {
  #asked = {};

  constructor(found) {
    this.spans = { source: null, target: null };
    this.take(found);
  }

  /** Take another translation. */
  take({ source, text, words }) {
    this.texts = { source, target: text };
    this.words = { source: wordsOf(source), target: wordsOf(text) };
    this.probabilities =
      words?.length === this.words.target.length ? words.map((w) => w.probability) : null;
    this.buttons = { source: null, target: null };
    this.#asked = {};
  }

  /** Show the text of a side as it is; the words come with `split`. */
  show(side, text = this.texts[side]) {
    this.spans[side] ??= element("span", { class: "sentence", "data-side": side });
    owners.set(this.spans[side], this);
    this.spans[side].textContent = text;
  }

  /** The elements of the words of a side, which are made now if they were not yet. */
  split(side) {
    if (this.buttons[side]) return this.buttons[side];
    const span = this.spans[side];
    if (!span) return (this.buttons[side] = []);
    const text = span.textContent;
    const nodes = [];
    let done = 0;
    this.buttons[side] = wordsOf(text).map(({ start, end }, number) => {
      const word = text.slice(start, end);
      const made = side === "source" ? element("span", {}) : this.#button(number);
      made.textContent = word;
      made.classList.add("w");
      made.dataset.number = number;
      nodes.push(text.slice(done, start), made);
      done = end;
      return made;
    });
    span.replaceChildren(...nodes, text.slice(done));
    return this.buttons[side];
  }

  #button(number) {
    const probability = this.probabilities?.[number] ?? 1;
    return element("span", {
      role: "button",
      tabindex: "-1",
      "aria-haspopup": "dialog",
      class: probability < DOUBTFUL ? "doubtful" : probability < UNSURE ? "unsure" : null,
    });
  }

  /** The numbers of the words on the other side that links, ranges of characters, give a word. */
  partners(side, number, links) {
    const other = side === "source" ? "target" : "source";
    const numberOf = (name, [start]) => this.words[name].findIndex((word) => word.at === start);
    return links
      .filter((link) => numberOf(side, link[side]) === number)
      .map((link) => numberOf(other, link[other]))
      .filter((found) => found >= 0);
  }

  /** The promise of something about this sentence, which is asked for once. */
  about(what, ask) {
    this.#asked[what] ??= ask(this).catch((error) => {
      delete this.#asked[what];
      throw error;
    });
    return this.#asked[what];
  }

  /** Mark the source words that are perhaps not translated, by the ranges of their characters. */
  mark(ranges) {
    const starts = new Set(ranges.map(([start]) => start));
    const buttons = this.split("source");
    this.words.source.forEach((word, number) => {
      buttons[number]?.classList.toggle("dropped", starts.has(word.at));
    });
  }
}
