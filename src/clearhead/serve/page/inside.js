// The view "Look inside", live.

import { element } from "./report/elements.js";

/** A sentence, and what happens inside the model. */
export async function insideView() {
  return element("p", {}, "…");
}
