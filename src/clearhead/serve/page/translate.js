// The view "Translate".

import { element } from "./report/elements.js";

/** Two panes with a text and its translation. */
export async function translateView() {
  return element("p", {}, "…");
}
