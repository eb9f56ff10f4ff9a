// Elements of the page. Texts of the report come from strangers: they only ever become text nodes
// and attribute values, and characters that reorder or hide text are made visible.

const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u206f\ud800-\udfff]/gu;

/** The text with visible symbols for control characters and for marks that reorder text. */
export function shown(text) {
  return String(text).replace(UNSEEN, (character) => {
    const code = character.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
  });
}

const NAMESPACES = {
  svg: "http://www.w3.org/2000/svg",
  math: "http://www.w3.org/1998/Math/MathML",
};

/**
 * An element.
 *
 * @param {string} tag - with a namespace in front for SVG and MathML: "svg:path", "math:mi".
 * @param {object} options - attributes; null, undefined and false are left out. `on` has listeners
 *   by the name of the event, `css` has style properties.
 * @param {...(Node|string|number|null|Array)} children
 */
export function element(tag, options = {}, ...children) {
  const [namespace, name] = tag.includes(":") ? tag.split(":") : [null, tag];
  const made = namespace
    ? document.createElementNS(NAMESPACES[namespace], name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    } else if (key === "css") {
      for (const [property, setting] of Object.entries(value)) {
        made.style.setProperty(property, setting);
      }
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(key, value === true ? "" : shown(value));
    }
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.append(child);
    else if (child !== null && child !== undefined && child !== false) {
      parent.append(document.createTextNode(shown(child)));
    }
  }
}

/** A text of the report in quotation marks; its direction does not affect the text around it. */
export function quoted(text) {
  return element("q", {}, element("bdi", {}, text));
}

/** A text of the report without quotation marks. */
export function plain(text) {
  return element("bdi", {}, text);
}

const RIGHT_TO_LEFT =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/** "rtl" if the first letter of a text is written from right to left, else "ltr". */
export function directionOf(text) {
  return RIGHT_TO_LEFT.test(/\p{L}/u.exec(text)?.[0] ?? "") ? "rtl" : "ltr";
}

/** A disclosure whose content is made when it is first opened. */
export function disclosure(summary, content, options = {}) {
  const details = element("details", options, element("summary", {}, summary));
  details.addEventListener("toggle", async () => {
    if (details.open && details.children.length === 1) details.append(await content());
  });
  return details;
}

/**
 * Make the buttons of a container one stop of the Tab key; arrow keys move between them.
 *
 * @param {Element} container - with the role "toolbar".
 * @param {Element} current - the button that the Tab key reaches; by default the first.
 */
export function arrowKeys(container, current = null) {
  const buttons = [...container.querySelectorAll("button")];
  const stop = current ?? buttons[0];
  for (const button of buttons) button.tabIndex = button === stop ? 0 : -1;
  container.addEventListener("focusin", (event) => {
    const target = event.target.closest("button");
    if (!target) return;
    for (const button of container.querySelectorAll('button[tabindex="0"]')) button.tabIndex = -1;
    target.tabIndex = 0;
  });
  container.addEventListener("keydown", (event) => {
    const number = buttons.indexOf(document.activeElement);
    if (number < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const backwards = getComputedStyle(container).direction === "rtl";
    const next = {
      ArrowRight: number + (backwards ? -1 : 1),
      ArrowLeft: number + (backwards ? 1 : -1),
      ArrowDown: nearestBelow(buttons, number, 1),
      ArrowUp: nearestBelow(buttons, number, -1),
      Home: 0,
      End: buttons.length - 1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    buttons[Math.max(0, Math.min(buttons.length - 1, next))].focus();
  });
}

/** The number of the button in the next line (way = 1) or the line before (-1) that is closest. */
function nearestBelow(buttons, number, way) {
  const here = buttons[number].getBoundingClientRect();
  const centre = (here.left + here.right) / 2;
  let best = number;
  let line = null;
  let distance = Infinity;
  for (let next = number + way; next >= 0 && next < buttons.length; next += way) {
    const there = buttons[next].getBoundingClientRect();
    if (Math.abs(there.top - here.top) < here.height / 2) continue;
    line ??= there.top;
    if (Math.abs(there.top - line) >= there.height / 2) break;
    const away = Math.abs((there.left + there.right) / 2 - centre);
    if (away < distance) [best, distance] = [next, away];
  }
  return best;
}
