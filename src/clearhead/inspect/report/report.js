// The page: what is where, and what happens when the fragment of the address changes.

import { element, plain, shown } from "./elements.js";
import { hasSubwords } from "./units.js";
import { changed, fragmentOf, readState } from "./state.js";
import { onTheme, isDark } from "./colours.js";
import {
  firstModel,
  headline,
  itemOf,
  modelChoice,
  sentenceList,
  summary,
} from "./sentences.js";
import { pictureControls, wordsView } from "./words.js";
import { matrixView } from "./matrix.js";
import { layerWalkView, walkControls } from "./layer_walk.js";
import { beamView } from "./beam_tree.js";
import { experimentsView } from "./experiments.js";
import { beliefView } from "./belief.js";

const VIEWS = {
  words: { title: "Words", draw: wordsView, controls: pictureControls },
  matrix: { title: "Matrix", draw: matrixView, controls: pictureControls },
  layer: {
    title: "Inside a layer",
    draw: layerWalkView,
    controls: walkControls,
    has: ({ item }) => item.walk,
  },
  beam: { title: "Beam", draw: beamView, has: ({ item }) => item.beam },
  experiments: {
    title: "Experiments",
    draw: experimentsView,
    has: ({ item }) => item.lens,
  },
  belief: {
    title: "What to believe",
    draw: beliefView,
    has: ({ model }) => model.belief || model.importance || model.roles,
  },
};

/**
 * Show a report.
 *
 * @param {object} data - the source of the data, e.g. an `EmbeddedData`.
 * @param {Element} place - where the page is drawn.
 */
export async function startReport(data, place) {
  restoreTheme();
  const report = await data.report();
  if (report.version !== 1) {
    place.replaceChildren(
      element(
        "p",
        { class: "loading" },
        `This page reads reports of version 1, not ${report.version}.`,
      ),
    );
    return;
  }
  const page = new Page(data, report, place, OWN_ADDRESS);
  window.addEventListener("hashchange", () => page.draw());
  window.addEventListener("resize", () => page.resized());
  onTheme(() => page.draw());
  await page.draw();
}

/** The state of the page in the fragment of its address: `read()` it, `link(state)`, `go(state)`. */
const OWN_ADDRESS = {
  read: () => readState(location.hash),
  link: fragmentOf,
  go: (state) => {
    location.hash = fragmentOf(state);
  },
};

/**
 * The views of a report, as a part of a page.
 *
 * `address` has the state of the report as `OWN_ADDRESS` does.
 */
export class Report {
  constructor(data, report, place, address) {
    Object.assign(this, { data, report, place, address });
    this.drawings = 0;
  }

  /** Draw what the address says; an older drawing that is not finished is dropped. */
  async draw() {
    const drawing = ++this.drawings;
    const state = this.completed(this.address.read());
    const columns = this.columns(state);
    const contexts = columns.map((model, number) =>
      this.context(state, model, number, columns.length),
    );
    const controls = VIEWS[state.view].controls?.({
      ...contexts[0],
      hasSubwords: contexts.some((context) => hasSubwords(context.item)),
    });
    const drawn = await Promise.all(
      contexts.map((context) => panel(context, VIEWS[state.view], columns.length > 1)),
    );
    if (drawing !== this.drawings) return;
    const focused = document.activeElement?.dataset?.key;
    const scroll = window.scrollY;
    const navigation = this.navigation(contexts[0], state, controls);
    const layout = columns.length > 1 ? "columns" : null;
    this.place.replaceChildren(...this.parts(contexts[0], state, navigation, layout, drawn));
    if (focused)
      this.place
        .querySelector(`[data-key="${CSS.escape(focused)}"]`)
        ?.focus({ preventScroll: true });
    window.scrollTo({ top: scroll, behavior: "instant" });
    this.width = this.place.clientWidth;
    for (const context of contexts) for (const after of context.after) after();
  }

  /** What is drawn: the choices and the views. */
  parts(context, state, navigation, layout, views) {
    return [navigation, element("div", { class: layout }, views)];
  }

  /** The state within what the report has. */
  completed(state) {
    if (!Object.hasOwn(VIEWS, state.view)) state.view = "words";
    if (!itemOf(this.report, state.sentence, firstModel(this.report, state.sentence)))
      state.sentence = 1;
    if (!itemOf(this.report, state.sentence, state.model))
      state.model = firstModel(this.report, state.sentence);
    if (!isThere(VIEWS[state.view], this.context(state, state.model, 0, 1))) state.view = "words";
    return state;
  }

  columns(state) {
    const other =
      state.compare &&
      state.compare !== state.model &&
      itemOf(this.report, state.sentence, state.compare);
    return other ? [state.model, state.compare] : [state.model];
  }

  /** The width of all views together. */
  space() {
    return this.place.clientWidth || window.innerWidth;
  }

  /** What a view gets: the data, what to show, and how to change it. */
  context(state, model, number, count) {
    const after = [];
    const space = this.space();
    return {
      data: this.data,
      report: this.report,
      state,
      link: (changes) => this.address.link(changed(state, changes)),
      after,
      item: itemOf(this.report, state.sentence, model),
      model: this.report.models[model - 1],
      go: (changes) => this.address.go(changed(state, changes)),
      key: (name) => (number ? `${number}.${name}` : name),
      onScreen: (callback) => after.push(callback),
      width: count > 1 && window.innerWidth >= 1000 ? (space - 48) / 2 : space,
    };
  }

  navigation(context, state, controls) {
    const views = Object.entries(VIEWS).filter(([, view]) => isThere(view, context));
    return element(
      "section",
      { class: "choices", "aria-label": "What to show" },
      sentenceList(context),
      modelChoice(context),
      element(
        "nav",
        { class: "views", "aria-label": "Views of the sentence" },
        element(
          "ul",
          {},
          views.map(([name, view]) =>
            element(
              "li",
              {},
              element(
                "a",
                {
                  href: context.link({ view: name }),
                  "aria-current": name === state.view ? "page" : null,
                  "data-key": `view.${name}`,
                },
                view.title,
              ),
            ),
          ),
        ),
      ),
      controls,
    );
  }

  /** Pictures are drawn for the width of the page; draw them again when it has changed. */
  resized() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.place.clientWidth !== this.width) this.draw();
    }, 200);
  }
}

/** A report that is the whole page. */
class Page extends Report {
  space() {
    return Math.min(super.space(), 1180) - 2 * margin();
  }

  parts(context, state, navigation, layout, views) {
    document.title = `${shown(this.report.title)} – ${VIEWS[state.view].title}`;
    return [
      element("a", { class: "skip", href: "#view", on: { click: skip } }, "Skip to the view"),
      this.head(context),
      navigation,
      element("main", { id: "view", tabindex: "-1", class: layout }, views),
      this.foot(state),
    ];
  }

  head(context) {
    const { title, generator } = this.report;
    const theme = element(
      "button",
      {
        type: "button",
        class: "theme",
        "data-key": "theme",
        on: {
          click: () => {
            toggleTheme();
            this.draw();
          },
        },
      },
      isDark() ? "Light page" : "Dark page",
    );
    return element(
      "header",
      { class: "top" },
      element(
        "div",
        {},
        element("p", { class: "generator" }, plain(title), ", with ", plain(generator)),
        headline(context),
      ),
      theme,
    );
  }

  foot(state) {
    const { command } = this.report;
    return element(
      "footer",
      {},
      element(
        "p",
        {},
        element("a", { href: this.address.link(state) }, "Link to this view"),
        ". The address of the page always leads back to what it shows.",
      ),
      command && element("p", {}, "Made with ", element("code", {}, command)),
    );
  }
}

/** Whether the report has the data of a view. */
function isThere(view, context) {
  return !view.has || Boolean(view.has(context));
}

function margin() {
  return window.innerWidth < 640 ? 16 : 32;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("view").focus();
}

/** The view of one model; what goes wrong is written where the view would be. */
async function panel(context, view, isCompared) {
  const nothing = () => element("p", { class: "how" }, "Nothing of this is known of this model.");
  const drawn = isThere(view, context) ? view.draw(context) : Promise.resolve(nothing());
  const content = await drawn.catch((error) => {
    console.error(error);
    return element(
      "p",
      { class: "warning", role: "alert" },
      `This view cannot be drawn: ${error.message}`,
    );
  });
  return element(
    "article",
    { class: "panel", "aria-label": isCompared ? context.model.name : null },
    summary(context),
    content,
  );
}

function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("clearhead.theme", theme);
  } catch {
    // A page without storage only forgets the choice.
  }
}

function restoreTheme() {
  try {
    const theme = localStorage.getItem("clearhead.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Without storage the page follows the system.
  }
}
