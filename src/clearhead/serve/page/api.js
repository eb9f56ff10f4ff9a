// Requests to the server: they wait while it is busy or gone, and while it needs an API key.

/** An error of the server: `status`, and `problem` with what, why, todo and retry_after. */
export class ServerError extends Error {
  constructor(status, problem) {
    super([problem.what, problem.why, problem.todo].filter(Boolean).join("; "));
    Object.assign(this, { status, problem });
  }
}

const LONGEST_WAIT = 10; // seconds between two tries of a server that does not answer
const KEY = "clearhead key";

/**
 * Our own API, with the key that this browser tab has.
 *
 * The event "state" has {name: "ready", "busy" or "gone", seconds until the next try}.
 */
export class Api extends EventTarget {
  /** Gives a promise that is fulfilled when `key` has been set; the page replaces it. */
  askForKey = () => Promise.reject(new ServerError(401, { what: "an API key is needed" }));

  #asking = null;

  get key() {
    return sessionStorage.getItem(KEY) ?? "";
  }

  set key(value) {
    sessionStorage.setItem(KEY, value);
  }

  /** The answer to a GET request, as JSON. */
  async get(path, options = {}) {
    return (await this.fetch(path, options)).json();
  }

  /** The answer to a POST request with a JSON body, as JSON. */
  async post(path, body, options = {}) {
    return (await this.fetch(path, { ...options, ...posted(body) })).json();
  }

  /** The events {name, data} that a POST request is answered with; throws what "error" has. */
  async *stream(path, body, options = {}) {
    const response = await this.fetch(path, { ...options, ...posted(body) });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = "", end; !end;) {
      const { value = "", done } = await reader.read();
      end = done;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const [name, data] = /^event: (.*)\ndata: (.*)$/s.exec(event).slice(1);
        const content = JSON.parse(data);
        if (name === "error") throw new ServerError(content.retry_after ? 503 : 400, content);
        yield { name, data: content };
        if (name === "done") return;
      }
    }
    throw new TypeError("the connection ended");
  }

  /** The response to a request; throws a `ServerError` if it is an error. */
  async fetch(path, options = {}) {
    for (let tries = 0; ; tries++) {
      const key = this.key;
      const headers = { ...options.headers };
      if (key) headers.authorization = `Bearer ${key}`;
      let response;
      try {
        response = await fetch(path, { ...options, headers });
      } catch (error) {
        await this.retry(error, tries, options.signal);
        continue;
      }
      this.#report("ready", 0);
      if (response.ok) return response;
      const problem = await response.json().then(
        (content) => content.error,
        () => ({ what: `the server answered with the status ${response.status}` }),
      );
      const seconds = Number(response.headers.get("retry-after"));
      if (seconds) problem.retry_after = seconds;
      const error = new ServerError(response.status, problem);
      if (response.status === 401) await this.#newKey(key);
      else await this.retry(error, tries, options.signal);
    }
  }

  /** Wait until a request that failed may be tried again; throws an error that will not go away. */
  async retry(error, tries, signal) {
    signal?.throwIfAborted();
    const seconds = error.problem?.retry_after;
    if (seconds) await this.#wait("busy", seconds, signal);
    else if (error instanceof TypeError)
      await this.#wait("gone", Math.min(2 ** tries, LONGEST_WAIT), signal);
    else throw error;
  }

  async #newKey(used) {
    if (this.key !== used) return; // somebody has typed another one meanwhile
    this.#asking ??= this.askForKey(used !== "").finally(() => {
      this.#asking = null;
    });
    await this.#asking;
  }

  async #wait(name, seconds, signal) {
    this.#report(name, seconds);
    await new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, 1000 * seconds);
      signal?.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(signal.reason);
      });
    });
  }

  #report(name, seconds) {
    this.dispatchEvent(new CustomEvent("state", { detail: { name, seconds } }));
  }
}

function posted(body) {
  const headers = { "content-type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body) };
}
