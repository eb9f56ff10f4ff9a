// Requests to the server.

/** An error of the server: `status`, and `problem` with what, why and todo. */
export class ServerError extends Error {
  constructor(status, problem) {
    super([problem.what, problem.why, problem.todo].filter(Boolean).join("; "));
    Object.assign(this, { status, problem });
  }
}

/** Our own API, with the key that this browser tab has. */
export class Api {
  get key() {
    return sessionStorage.getItem("clearhead key") ?? "";
  }

  set key(value) {
    sessionStorage.setItem("clearhead key", value);
  }

  /** The answer to a GET request, as JSON. */
  async get(path, options = {}) {
    return (await this.fetch(path, options)).json();
  }

  /** The answer to a POST request with a JSON body, as JSON. */
  async post(path, body, options = {}) {
    const headers = { "content-type": "application/json" };
    return (
      await this.fetch(path, { ...options, method: "POST", headers, body: JSON.stringify(body) })
    ).json();
  }

  /** The response to a request; throws a `ServerError` if it is an error. */
  async fetch(path, options = {}) {
    const headers = { ...options.headers };
    if (this.key) headers.authorization = `Bearer ${this.key}`;
    const response = await fetch(path, { ...options, headers });
    if (response.ok) return response;
    const problem = await response.json().then(
      (content) => content.error,
      () => ({ what: `the server answered with the status ${response.status}` }),
    );
    throw new ServerError(response.status, problem);
  }
}
