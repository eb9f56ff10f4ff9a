// The page of a server: its parts, and what happens when the fragment of the address changes.
//
// A view is a function of a context {api, models, state, link, go} that gives an element. `models`
// is the answer of /v1/models. `state` has the parameters of the fragment, such as
// "#view=inside&model=en-de"; `go(changes)` changes it, and `link(changes)` gives the fragment.

import { element } from "./report/elements.js";
import { Api } from "./api.js";
import { translateView } from "./translate.js";
import { insideView } from "./inside.js";

const VIEWS = {
  translate: { title: "Translate", draw: translateView },
  inside: { title: "Look inside", draw: insideView },
};

const api = new Api();
const place = document.getElementById("page");

async function draw() {
  const models = await api.get("/v1/models");
  const state = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const link = (changes) => `#${new URLSearchParams({ ...state, ...changes })}`;
  const go = (changes) => {
    location.hash = link(changes);
  };
  const view = VIEWS[state.view] ?? VIEWS.translate;
  const content = await view.draw({ api, models, state, link, go });
  place.replaceChildren(
    element(
      "nav",
      {},
      Object.entries(VIEWS).map(([name, { title }]) =>
        element("a", { href: link({ view: name }) }, title, " "),
      ),
    ),
    element("main", {}, content),
  );
}

window.addEventListener("hashchange", draw);
draw();
