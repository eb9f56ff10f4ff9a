// A text and its translation, in parts: what did not change need not be translated again.
//
// A part has a piece of the text, as typed, and its translation. A gap is a part that is not yet
// translated; it shows the old translation. Each has an element in the mirror, which lies behind
// the typed text, and one in the output.

import { element } from "./report/elements.js";
import { Sentence, sentenceOf } from "./sentence.js";

/**
 * A text with an empty line for each line break, since the server joins lines of a paragraph.
 *
 * Long lines that go on with a small letter are those of a paragraph that was broken into lines.
 */
export function sent(text) {
  return text.replace(/\n/g, (_, at) => (isWrapped(text, at) ? "\n" : "\n\n"));
}

function isWrapped(text, at) {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return (
    line.length >= 60 &&
    !/[.!?:;…]\s*$/u.test(line) &&
    /^\p{Ll}/u.test(text.slice(at + 1, at + 3))
  );
}

/** What `sent` made longer, as it was. */
export function unsent(text) {
  return text.replaceAll("\n\n", "\n");
}

/** All parts of a text, in their order. */
export class Parts {
  #list = [];
  #gap = null;
  #sent = { source: "", target: "" }; // of the gap, so far

  /**
   * @param {Element} mirror - gets the text.
   * @param {Element} output - gets the translation.
   * @param {function(Sentence)} onSentence - called with each new sentence.
   */
  constructor(mirror, output, onSentence) {
    Object.assign(this, { mirror, output, onSentence });
  }

  /** The translation. */
  get text() {
    return this.#list.map((part) => part.translation ?? "").join("");
  }

  /** The text that is still to be translated. */
  get missing() {
    return this.#gap?.original ?? "";
  }

  get warnings() {
    return this.#list.flatMap((part) => part.warnings ?? []);
  }

  /** The language that was detected. */
  get detected() {
    return this.#list.find((part) => part.detected)?.detected ?? null;
  }

  /** The text has changed. What differs becomes a gap; with `all`, everything does. */
  change(text, all = false) {
    const old = this.#list;
    const stays = (part) => !all && part !== this.#gap;
    let [first, start, last, end] = [0, 0, old.length, text.length];
    while (first < last && stays(old[first]) && text.startsWith(old[first].original, start))
      start += old[first++].original.length;
    if (first === last && start === end) return;
    if (first) start -= old[--first].original.length; // its last sentence may go on now
    while (
      last > first &&
      stays(old[last - 1]) &&
      isBefore(old[last - 1].original, text, start, end)
    )
      end -= old[--last].original.length;
    if (last < old.length) end += old[last++].original.length;
    const dropped = old.slice(first, last);
    const gap = {
      original: text.slice(start, end),
      mirrored: element("span", {}),
      shown: element("span", { class: "stale" }),
    };
    gap.mirrored.textContent = gap.original;
    gap.shown.append(...dropped.flatMap((part) => [...part.shown.childNodes]));
    place(
      this.mirror,
      gap.mirrored,
      dropped.map((part) => part.mirrored),
      old[last]?.mirrored,
    );
    place(
      this.output,
      gap.shown,
      dropped.map((part) => part.shown),
      old[last]?.shown,
    );
    this.#list.splice(first, last - first, gap);
    this.#gap = gap;
    this.#sent = { source: "", target: "" };
    if (!gap.original.trim()) this.finish();
  }

  /** The next part of the gap has been translated; it is an event of the stream. */
  add(found) {
    const gap = this.#gap;
    const [original, translation] = [
      this.#next("source", found.source),
      this.#next("target", found.text),
    ];
    const part = { ...found, original, translation };
    part.mirrored = element("span", {});
    part.shown = element("span", {});
    const sentences = found.sentences.map((each) => new Sentence(each));
    fill(part.mirrored, original, sentences, "source");
    fill(part.shown, translation, sentences, "target");
    gap.original = gap.original.slice(original.length);
    gap.mirrored.textContent = gap.original;
    gap.shown.replaceChildren();
    gap.mirrored.before(part.mirrored);
    gap.shown.before(part.shown);
    const index = this.#list.indexOf(gap);
    const before = this.#list[index - 1];
    part.mirrored.classList.toggle("lines", isLines(original, before?.original));
    part.shown.classList.toggle("lines", isLines(translation, before?.translation));
    this.#list.splice(index, 0, part);
    sentences.forEach(this.onSentence);
  }

  /** Nothing more is to be translated. */
  finish() {
    const gap = this.#gap;
    this.#gap = null;
    if (!gap) return;
    if (gap.original) {
      // White space stays.
      gap.translation = gap.original;
      gap.shown.className = "";
      gap.shown.textContent = gap.original;
    } else {
      gap.mirrored.remove();
      gap.shown.remove();
      this.#list.splice(this.#list.indexOf(gap), 1);
    }
  }

  /** The sentence at a position of the text, and the position within it; null if there is none. */
  sentenceAt(position) {
    let node = this.mirror.firstChild;
    while (node) {
      const length = node.textContent.length;
      const sentence = sentenceOf(node);
      if (position > length) {
        position -= length;
        node = node.nextSibling;
      } else if (sentence) return { sentence, position };
      else node = node.firstElementChild && node.firstChild;
    }
    return null;
  }

  /** A sentence has another translation now. */
  replace(sentence) {
    const part = this.#list.find((each) => each.shown.contains(sentence.spans.target));
    if (part) part.translation = part.shown.textContent;
  }

  /** What the next piece of the sent text was before, even if it divides two line breaks. */
  #next(side, piece) {
    const before = unsent(this.#sent[side]).length;
    this.#sent[side] += piece;
    return unsent(this.#sent[side]).slice(before);
  }
}

/** Whether a piece has whole lines, which can be laid out apart from the others. */
function isLines(piece, before = "\n") {
  return piece.endsWith("\n") && before.endsWith("\n");
}

/** Whether a piece is the end of text[start:end]. */
function isBefore(piece, text, start, end) {
  return end - piece.length >= start && text.endsWith(piece, end);
}

function place(parent, made, dropped, next) {
  parent.insertBefore(made, dropped[0] ?? next ?? null);
  for (const each of dropped) each.remove();
}

/** Fill an element with a text in which each sentence has a span of its own. */
function fill(parent, text, sentences, side) {
  let done = 0;
  for (const sentence of sentences) {
    const found = range(text, sentence.texts[side], done);
    if (!found) continue;
    parent.append(text.slice(done, found[0]));
    sentence.show(side, text.slice(...found));
    parent.append(sentence.spans[side]);
    done = found[1];
  }
  parent.append(text.slice(done));
}

/** Where a sentence is in a text, whatever white space it has there. */
function range(text, sentence, from) {
  const start = text.indexOf(sentence, from);
  if (start >= 0) return [start, start + sentence.length];
  const words = sentence
    .split(/\s+/u)
    .map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  const found = new RegExp(words.join("\\s+"), "gu");
  found.lastIndex = from;
  const match = found.exec(text);
  return match && [match.index, found.lastIndex];
}
