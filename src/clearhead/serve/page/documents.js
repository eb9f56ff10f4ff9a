// Documents: dropped or chosen, translated in the background, and downloaded.

import { element, plain } from "./report/elements.js";
import { counted } from "./report/numbers.js";

const EVERY = 700; // milliseconds between two looks at a document

/**
 * A list of documents with a place to drop them.
 *
 * @param {object} view - api, settings, and `parameters`, the languages and the other choices.
 */
export function documentsPanel(view) {
  const list = element("ul", { class: "files" });
  const input = element("input", {
    type: "file",
    id: "files",
    multiple: true,
    accept: view.settings.endings.join(","),
    on: {
      change: () => {
        add(input.files);
        input.value = "";
      },
    },
  });
  const add = (files) => {
    for (const file of files) list.append(new DocumentLine(view, file).element);
  };
  const zone = element(
    "section",
    { class: "documents", "aria-labelledby": "documents" },
    element("h2", { id: "documents" }, "Documents"),
    element(
      "p",
      {},
      "Drop documents here, or ",
      element("label", { for: "files", class: "file" }, "choose files"),
      input,
      element("small", {}, ` (${view.settings.endings.join(" ")})`),
    ),
    list,
  );
  // The window takes them, so that a document beside the zone does not replace the page.
  const isDrag = (event) => event.dataTransfer?.types.includes("Files") && zone.isConnected;
  window.addEventListener("dragover", (event) => {
    if (!isDrag(event)) return;
    event.preventDefault();
    zone.classList.add("over");
  });
  window.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) zone.classList.remove("over");
  });
  window.addEventListener("drop", (event) => {
    if (!isDrag(event)) return;
    event.preventDefault();
    zone.classList.remove("over");
    add(event.dataTransfer.files);
  });
  return zone;
}

class DocumentLine {
  constructor(view, file) {
    Object.assign(this, { view, file });
    this.abort = new AbortController();
    this.state = element("span", { class: "file-state", role: "status" }, "Sending …");
    this.bar = element("progress", { max: 1, "aria-label": `Progress of ${file.name}` });
    this.remove = element(
      "button",
      { type: "button", class: "link", on: { click: () => this.#remove() } },
      "Remove",
      element("span", { class: "aloud" }, ` ${file.name}`),
    );
    this.actions = element("span", { class: "file-actions" }, this.remove);
    this.element = element(
      "li",
      {},
      element("span", { class: "file-name" }, plain(file.name)),
      this.bar,
      this.state,
      this.actions,
    );
    this.#follow().catch((error) => {
      if (!this.abort.signal.aborted) this.#fail(error.message);
    });
  }

  async #follow() {
    const { api, settings } = this.view;
    if (this.file.size > settings.bytes) {
      const most = `${(settings.bytes / 1e6).toLocaleString("en")} MB`;
      return this.#fail(`the document is larger than ${most}`);
    }
    const body = new FormData();
    const { glossary, ...choices } = this.view.parameters;
    for (const [name, value] of Object.entries(choices)) body.append(name, value);
    body.append("glossary", JSON.stringify(glossary));
    body.append("file", this.file);
    const { signal } = this.abort;
    const sent = await api.fetch("/v1/documents", { method: "POST", body, signal });
    let found = await sent.json();
    this.path = `/v1/documents/${found.id}`;
    const begin = performance.now();
    while (found.state === "waiting" || found.state === "translating") {
      this.#progress(found, performance.now() - begin);
      await new Promise((resolve) => setTimeout(resolve, EVERY));
      found = await api.get(this.path, { signal });
    }
    if (found.state === "error") return this.#fail(found.error);
    this.bar.remove();
    const notes = found.warnings.length ? `, ${counted(found.warnings.length, "note")}` : "";
    this.state.replaceChildren(`Translated: ${counted(found.texts, "text")}${notes}`);
    const download = element(
      "button",
      { type: "button", class: "link", on: { click: () => this.#download(found.name) } },
      "Download ",
      plain(found.name),
    );
    this.actions.prepend(download, " ");
    if (found.warnings.length) this.element.append(notesOf(found.warnings));
  }

  #progress({ done, total }, passed) {
    if (!total || !done) {
      this.state.replaceChildren("Waiting …");
      return;
    }
    this.bar.value = done / total;
    const seconds = Math.ceil(((total - done) * passed) / done / 1000);
    const left =
      seconds < 60 ? counted(seconds, "second") : counted(Math.ceil(seconds / 60), "minute");
    this.state.replaceChildren(`${done} of ${counted(total, "sentence")}, about ${left} left`);
  }

  #fail(message) {
    this.bar.remove();
    this.state.replaceChildren(`Not translated: ${message}`);
    this.state.classList.add("wrong");
  }

  /** A link could not send the API key. */
  async #download(name) {
    try {
      const response = await this.view.api.fetch(`${this.path}/result`);
      const url = URL.createObjectURL(await response.blob());
      element("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    } catch (error) {
      this.#fail(error.message);
    }
  }

  #remove() {
    this.abort.abort();
    if (this.path) this.view.api.fetch(this.path, { method: "DELETE" }).catch(() => {});
    this.element.remove();
  }
}

function notesOf(warnings) {
  return element(
    "details",
    {},
    element("summary", {}, counted(warnings.length, "note")),
    element(
      "ul",
      {},
      warnings
        .slice(0, 100)
        .map(({ place, text }) => element("li", {}, plain(place ?? ""), " ", plain(text))),
    ),
  );
}
