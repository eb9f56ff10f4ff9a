// The page of a server: its parts, and what happens when the fragment of the address changes.
//
// A view is a function of a context {api, models, settings, state, link, go} that gives an element.
// `models` is the answer of /v1/models, `settings` that of settings.json. `state` has the
// parameters of the fragment, such as "#view=inside&model=en-de"; `go(changes)` changes it, and
// `link(changes)` gives the fragment. A view is drawn again when the fragment changes; it may give
// the same element.

import { element } from "./report/elements.js";
import { isDark } from "./report/colours.js";
import { Api } from "./api.js";
import { classifiersOf, classifyView } from "./classify.js";
import { translatorsOf, translateView } from "./translate.js";
import { insideView } from "./inside.js";

const VIEWS = {
  translate: { title: "Translate", draw: translateView, has: (c) => translatorsOf(c).length },
  classify: { title: "Classify", draw: classifyView, has: (c) => classifiersOf(c).length },
  inside: { title: "Look inside", draw: insideView, has: (c) => c.settings.inspect },
};

const THEME = "clearhead.theme"; // as in reports

const api = new Api();
const place = document.getElementById("page");
const main = element("main", { id: "view", tabindex: "-1" });
const header = element("header", { class: "site" });
const banner = element("p", { class: "banner", role: "status", hidden: true });
let drawings = 0;
let known = null; // models and settings

/** Draw what the fragment says; an older drawing that is not finished is dropped. */
async function draw() {
  const drawing = ++drawings;
  known ??= loaded();
  let found;
  try {
    found = await known;
  } catch (error) {
    known = null;
    const again = element("button", { type: "button", on: { click: draw } }, "Try again");
    const text = `The models are not known: ${error.message}`;
    place.replaceChildren(element("p", { class: "warning", role: "alert" }, text), again);
    return;
  }
  const { models, settings } = found;
  const state = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const link = (changes) => `#${new URLSearchParams({ ...state, ...changes })}`;
  const go = (changes) => {
    location.hash = link(changes);
  };
  const context = { api, models, settings, state, link, go };
  const views = Object.entries(VIEWS).filter(([, view]) => view.has(context));
  if (!views.length) {
    place.replaceChildren(element("p", { class: "loading" }, "None of the models reads texts."));
    return;
  }
  const [name, view] = views.find(([name]) => name === state.view) ?? views[0];
  const content = await view.draw(context).catch((error) => {
    console.error(error);
    return element(
      "p",
      { class: "warning", role: "alert" },
      `This cannot be shown: ${error.message}`,
    );
  });
  if (drawing !== drawings) return;
  const focused = document.activeElement?.dataset?.key;
  header.replaceChildren(...head(views, name, link));
  if (main.firstChild !== content) main.replaceChildren(content);
  if (!header.isConnected) place.replaceChildren(skipLink(), header, banner, main);
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  document.title = `${view.title} – clearhead`;
  content.dispatchEvent(new Event("shown"));
}

async function loaded() {
  const [models, settings] = await Promise.all([
    api.get("/v1/models"),
    api.get("/page/settings.json"),
  ]);
  return { models, settings };
}

function head(views, current, link) {
  const theme = element(
    "button",
    { type: "button", class: "theme", "data-key": "theme", on: { click: toggleTheme } },
    isDark() ? "Light page" : "Dark page",
  );
  const items = views.map(([name, { title }]) =>
    element(
      "li",
      {},
      element(
        "a",
        {
          href: link({ view: name }),
          "aria-current": name === current ? "page" : null,
          "data-key": `view.${name}`,
        },
        title,
      ),
    ),
  );
  return [
    element("p", { class: "wordmark" }, "clearhead"),
    element("nav", { class: "views", "aria-label": "Views" }, element("ul", {}, items)),
    theme,
  ];
}

function skipLink() {
  const skip = (event) => {
    event.preventDefault();
    main.focus();
  };
  return element("a", { class: "skip", href: "#view", on: { click: skip } }, "Skip to the view");
}

function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(THEME, theme);
  draw();
}

/** Say so while the server is busy or gone. */
function showState({ detail: { name, seconds } }) {
  const wait = seconds === 1 ? "in 1 second" : `in ${seconds} seconds`;
  const texts = {
    busy: `The server is busy. The page tries again ${wait}.`,
    gone: `The server does not answer. The page tries again ${wait}.`,
  };
  banner.hidden = name === "ready";
  if (!banner.hidden) banner.replaceChildren(texts[name]);
  if (!header.isConnected && !banner.hidden) place.replaceChildren(banner);
}

/** Ask for the API key; the promise is fulfilled when there is one. */
function askForKey(isWrong) {
  const input = element("input", {
    id: "key",
    type: "password",
    autocomplete: "off",
    required: true,
    "aria-describedby": "key-note",
  });
  const dialog = element(
    "dialog",
    {
      class: "key",
      "aria-labelledby": "key-title",
      on: { cancel: (event) => event.preventDefault() },
    },
    element(
      "form",
      { method: "dialog" },
      element("h2", { id: "key-title" }, "This server needs an API key"),
      element("label", { for: "key" }, "API key"),
      input,
      element(
        "p",
        { id: "key-note", class: isWrong ? "wrong" : "how", role: isWrong ? "alert" : null },
        isWrong ? "This key is wrong. " : "",
        "Ask whoever runs this server. The key is kept until you close this tab.",
      ),
      element("button", { class: "primary" }, "Go on"),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      api.key = input.value.trim();
      dialog.remove();
      resolve();
    });
  });
}

if (localStorage.getItem(THEME))
  document.documentElement.dataset.theme = localStorage.getItem(THEME);
api.askForKey = askForKey;
api.addEventListener("state", showState);
window.addEventListener("hashchange", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
