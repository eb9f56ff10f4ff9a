// Buttons, sliders and choices of the view "Look inside".

import { element } from "./report/elements.js";

/** A button; `key` names it, so that it keeps the focus when its part is drawn again. */
export function action(key, click, options, ...content) {
  return element(
    "button",
    { type: "button", "data-key": key, ...options, on: { click, ...options.on } },
    content,
  );
}

/** A slider with its value; `change` is called when it is let go. */
export function slider(key, label, { min, max, step, value }, format, change) {
  const shown = element("output", {}, format(value));
  const input = element("input", {
    type: "range",
    ...{ min, max, step },
    "aria-valuetext": format(value),
    "data-key": key,
    on: {
      input: () => {
        shown.replaceChildren(format(Number(input.value)));
        input.setAttribute("aria-valuetext", format(Number(input.value)));
      },
      change: () => change(Number(input.value)),
    },
  });
  input.value = value;
  return element("label", { class: "slider" }, element("span", {}, label), input, shown);
}

/** A choice of {value, text} each. */
export function choice(key, label, options, value, change) {
  return element(
    "label",
    {},
    `${label} `,
    element(
      "select",
      { "data-key": key, on: { change: (event) => change(event.target.value) } },
      options.map((each) =>
        element("option", { value: each.value, selected: each.value === value }, each.text),
      ),
    ),
  );
}

/** Fill a part of the page; what has the focus keeps it. */
export function fill(place, ...content) {
  const focused = place.contains(document.activeElement) && document.activeElement.dataset.key;
  place.replaceChildren(...content.flat(2).filter(Boolean));
  if (focused)
    place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}
