// What could be in the place of a word of a translation, beside the word.

import { element, plain, quoted } from "./report/elements.js";
import { percent } from "./report/numbers.js";
import { termForm } from "./terms.js";

const SHOWN = 6;

/**
 * Show the alternatives of a word.
 *
 * @param {Element} word - beside which they are shown.
 * @param {object} options - text: the word; source: the words it comes from; found: the promise of
 *   the answer of /v1/alternatives, or null; choose: a function of an alternative; always: a
 *   function of a term and its translation; inside: the address of the view that shows why, or
 *   null.
 */
export function showAlternatives(word, { text, source, found, choose, always, inside }) {
  const list = element("div", { class: "instead" });
  const card = element(
    "div",
    {
      popover: "auto",
      role: "dialog",
      class: "card",
      "aria-label": `Instead of ${text}`,
      tabindex: "-1",
    },
    element("p", { class: "card-title" }, found ? "Instead of " : "", quoted(text)),
    list,
    element(
      "details",
      { class: "always", open: !found },
      element("summary", {}, "Always translate as …"),
      termForm(source, text, "Always", (term, translation) => {
        card.hidePopover();
        always(term, translation);
      }),
    ),
    inside &&
      element("p", { class: "how" }, element("a", { href: inside }, "Look inside this sentence")),
  );
  const fill = async () => {
    list.replaceChildren(element("p", { class: "how", role: "status" }, "Looking …"));
    try {
      const { range, alternatives } = await found;
      const pick = (each) => {
        card.hidePopover();
        choose(each);
      };
      list.replaceChildren(...choicesOf(alternatives, text, range[0], pick));
      list.querySelector("button")?.focus();
    } catch (error) {
      list.replaceChildren(
        element("p", { class: "how", role: "alert" }, `Not known: ${error.message}`),
      );
    }
    put(card, word);
  };
  card.addEventListener("toggle", (event) => {
    if (event.newState === "closed") card.remove();
  });
  window.addEventListener("hashchange", () => card.remove(), { once: true });
  document.body.append(card);
  card.showPopover();
  put(card, word);
  card.focus();
  if (found) fill();
}

function choicesOf(alternatives, text, at, pick) {
  if (!alternatives.length)
    return [element("p", { class: "how" }, "The model gives no other word.")];
  const largest = Math.max(...alternatives.map((each) => each.probability));
  const items = alternatives.slice(0, SHOWN).map((each) =>
    element(
      "li",
      {},
      element(
        "button",
        {
          type: "button",
          class: "choice",
          "aria-current": each.word === text ? "true" : null,
          on: { click: () => pick(each) },
        },
        element("span", { class: "choice-word" }, plain(each.word)),
        element("span", { class: "choice-number" }, percent(each.probability)),
        element("span", {
          class: "choice-bar",
          css: { "inline-size": `${((100 * each.probability) / largest).toFixed(1)}%` },
        }),
        // The server counts characters as Array.from does.
        element(
          "span",
          { class: "choice-text" },
          "… ",
          plain(Array.from(each.text).slice(at).join("")),
        ),
      ),
    ),
  );
  return [
    element("ol", {}, items),
    element("p", { class: "how" }, "The model's probability of the word, not its correctness."),
  ];
}

/** Put a card below a word, or above it where there is more room, within the window. */
function put(card, word) {
  const beside = word.getBoundingClientRect();
  const { width, height } = card.getBoundingClientRect();
  const room = document.documentElement;
  const left = Math.max(8, Math.min(beside.left - 12, room.clientWidth - width - 8));
  const below = beside.bottom + 8;
  const fits = below + height <= room.clientHeight - 8 || beside.top < height + 16;
  const top = fits ? Math.min(below, room.clientHeight - height - 8) : beside.top - height - 8;
  card.style.setProperty("left", `${left}px`);
  card.style.setProperty("top", `${Math.max(8, top)}px`);
}
