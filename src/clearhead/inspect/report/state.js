// What the page shows, as the fragment of its address. A link to it restores the view, and the
// browser's Back button goes to the view before.

/** Each part of the state and its default. Sentences, layers, heads and places count from 1. */
const DEFAULTS = {
  sentence: 1,
  model: 1,
  compare: 0, // a second model beside it; 0: none
  view: "words",
  show: "measure", // or encoder, decoder, cross: attention weights
  measure: "", // "": removal, which is exact
  layer: 0, // 0: the last
  head: 0, // 0: the mean of all heads
  joined: true,
  place: 1, // the output that is explained; 0: none
  against: 0, // the alternative that it is compared with; 0: none
  stack: "encoder",
  token: 1,
  hypothesis: 1,
  other: 1, // the sentence whose values are put in
  pruned: true,
};

/** The state in a fragment such as "#sentence=2&view=beam"; what is missing or wrong is default. */
export function readState(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = { ...DEFAULTS };
  for (const [name, standard] of Object.entries(DEFAULTS)) {
    if (!given.has(name)) continue;
    const text = given.get(name);
    if (typeof standard === "boolean") state[name] = text !== "0";
    else if (typeof standard === "string") state[name] = text;
    else if (/^\d{1,6}$/.test(text)) state[name] = Number(text);
  }
  return state;
}

/** The fragment of a state; it always has the view, since an empty one would go to the top. */
export function fragmentOf(state) {
  const parts = new URLSearchParams();
  for (const [name, standard] of Object.entries(DEFAULTS)) {
    const value = state[name];
    if (value === standard && name !== "view") continue;
    parts.set(name, typeof value === "boolean" ? String(Number(value)) : String(value));
  }
  return `#${parts}`;
}

/** The state after changes; a choice that depends on what changed is forgotten. */
export function changed(state, changes) {
  const next = { ...state, ...changes };
  if (next.sentence !== state.sentence) {
    Object.assign(next, { place: 1, against: 0, token: 1, hypothesis: 1, other: 1 }, changes);
  }
  if (next.place !== state.place && !("against" in changes)) next.against = 0;
  if (next.stack !== state.stack && !("token" in changes)) next.token = 1;
  if (next.compare === next.model) next.compare = 0;
  return next;
}
