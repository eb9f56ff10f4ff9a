// "Always translate as …": the glossary of this browser, which goes with every request.

import { element, plain } from "./report/elements.js";

const STORED = "clearhead.terms";
const MOST = 1000;

/** The terms of all pairs of languages. */
export class Terms {
  /** @param {function()} onChange - called when a term was added or removed. */
  constructor(onChange) {
    this.onChange = onChange;
    try {
      this.all = JSON.parse(localStorage.getItem(STORED)) ?? {};
    } catch {
      this.all = {};
    }
  }

  /** The terms of a pair: {term: translation}. */
  of(pair) {
    return this.all[pair] ?? {};
  }

  set(pair, term, translation) {
    const others = Object.entries(this.of(pair)).filter(([name]) => name !== term);
    const added = translation ? [[term, translation]] : [];
    this.all[pair] = Object.fromEntries([...others, ...added].slice(-MOST));
    localStorage.setItem(STORED, JSON.stringify(this.all));
    this.onChange();
  }
}

/** A form with a term and its translation; `add` gets both. */
export function termForm(term, translation, button, add) {
  const inputs = [
    ["Term", "term", term],
    ["Translation", "translation", translation],
  ].map(([label, name, value]) =>
    element(
      "label",
      {},
      label,
      element("input", { name, value, required: true, maxlength: 200, autocomplete: "off" }),
    ),
  );
  const submit = (event) => {
    event.preventDefault();
    const [given, wanted] = inputs.map((label) => label.lastChild.value.trim());
    if (given && wanted) add(given, wanted);
  };
  return element(
    "form",
    { class: "term-form", on: { submit } },
    inputs,
    element("button", { class: "quiet" }, button),
  );
}

/** The terms of a pair with a button to remove each, and a form for another one. */
export function termsPanel(terms, pair) {
  const listed = Object.entries(terms.of(pair));
  const remove = (term) =>
    element(
      "button",
      { type: "button", class: "link", on: { click: () => terms.set(pair, term, "") } },
      "Remove",
      element("span", { class: "aloud" }, ` ${term}`),
    );
  return [
    listed.length > 0 &&
      element(
        "ul",
        { class: "terms" },
        listed.map(([term, translation]) =>
          element("li", {}, plain(term), " → ", plain(translation), " ", remove(term)),
        ),
      ),
    termForm("", "", "Add", (term, translation) => terms.set(pair, term, translation)),
  ];
}
