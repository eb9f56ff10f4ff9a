// What is switched off, as the address of the page has it and as the server reads it.
//
// In the address: off=decoder.1.cross.2,encoder.1.self.1 (heads), hide=0,3 (words of the source),
// cut=decoder.1.cross.2:0,1>3 (cells: head or attention, queries > keys; several with ";"), set=1
// (without positions).

import { headNamed, headTitle, KINDS } from "./report/attention.js";

const NONE = { off: "", hide: "", cut: "", set: "" };

/** What a new sentence changes: words and cells are others. */
export const NEW_TEXT = { hide: "", cut: "" };
/** What a new model changes. */
export const NEW_MODEL = { ...NONE, look: "", checkpoint: "", beside: "" };
/** What switches all on again. */
export const UNDO = NONE;

const list = (text) => (text ? text.split(",") : []);
const numbers = (text) => list(text).map(Number).filter(Number.isInteger);

/** The edits of a state. */
export function editsOf(state) {
  const cells = (state.cut ?? "").split(";").filter((each) => /^[a-z0-9.]+:[\d,]+>[\d,]+$/.test(each));
  return {
    heads: list(state.off),
    words: numbers(state.hide),
    cells: cells.map((text) => {
      const [, name, query, key] = /^(.*):(.*)>(.*)$/.exec(text);
      return { text, name, query: numbers(query), key: numbers(key) };
    }),
    isSet: state.set === "1",
  };
}

/** The same for the server. */
export function sentEdits(edits) {
  const link = ({ name, query, key }) => {
    const { kind, layer, head } = headNamed(name);
    return { kind, layer, head: head || null, query, key };
  };
  return {
    heads: edits.heads,
    source_words: edits.words,
    links: edits.cells.map(link),
    positions: edits.isSet ? "without" : "with",
  };
}

/** Whether anything is switched off. */
export function isEdited({ heads, words, cells, isSet }) {
  return heads.length + words.length + cells.length > 0 || isSet;
}

/** A part of the state with an entry more, or without it if it is there. */
export function toggled(text, entry, separator = ",") {
  const entries = text ? text.split(separator) : [];
  const others = entries.filter((each) => each !== entry);
  return (others.length < entries.length ? others : [...entries, entry]).join(separator);
}

/** The entry of `cut` for cells of a head, or of an attention. */
export function cellEntry(name, query, key) {
  return `${name}:${query.join(",")}>${key.join(",")}`;
}

/** The name of an attention in words: "cross 1". */
export function attentionTitle(name) {
  const { kind, layer, head } = headNamed(name);
  return head ? headTitle(name) : `${KINDS[kind]?.short ?? kind} ${layer}, all heads`;
}

/** What is switched off, for people: {text, changes} each, with what switches it on again. */
export function listedEdits(state, { source, output }) {
  const edits = editsOf(state);
  const word = (number) => source.words[number]?.[0] ?? `word ${number + 1}`;
  const piece = (names, positions) => positions.map((each) => names[each] ?? each + 1).join(" ");
  const cell = ({ text, name, query, key }) => {
    const { kind } = headNamed(name);
    const predicted = output.steps.map((step) => step.piece);
    const read = ["start", ...predicted];
    const rows = kind === "encoder" ? source.pieces : predicted;
    const columns = kind === "decoder" ? read : source.pieces;
    return {
      text: `${attentionTitle(name)}: ${piece(rows, query)} → ${piece(columns, key)}`,
      changes: { cut: toggled(state.cut, text, ";") },
    };
  };
  return [
    ...edits.heads.map((name) => ({
      text: headNamed(name).head ? headTitle(name) : name,
      changes: { off: toggled(state.off, name) },
    })),
    ...edits.words.map((number) => ({
      text: `word: ${word(number)}`,
      changes: { hide: toggled(state.hide, String(number)) },
    })),
    ...edits.cells.map(cell),
    ...(edits.isSet ? [{ text: "positions", changes: { set: "" } }] : []),
  ];
}
