// Requests to the service, with the API key of this tab.

const STORED = "api-key";
let key = null;
try {
  key = sessionStorage.getItem(STORED);
} catch {
  // Storage is blocked, so the key is kept in memory.
}

/** A failed request. `status` is 0 when no answer arrived, and `retryAfter` is in seconds. */
export class Failure extends Error {
  constructor(status, title, detail, retryAfter = null) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.retryAfter = retryAfter;
  }

  /** True if the same request may succeed later. */
  get temporary() {
    return [0, 429, 502, 503, 504].includes(this.status);
  }
}

let ask = null; // a function that requests the key from the user: (rejected) => Promise<?string>
let asked = null; // its pending promise, one for all requests

export function onUnauthorised(handler) {
  ask = handler;
}

export const hasKey = () => key !== null;

async function renew(used) {
  if (used !== key) return; // another request has replaced it
  asked ??= ask(used !== null).finally(() => (asked = null));
  const entered = await asked;
  if (entered === null) throw new Failure(401, "A key is required", "Enter the API key of this service.");
  key = entered;
  try {
    sessionStorage.setItem(STORED, key);
  } catch {
    // Kept in memory.
  }
}

/** Returns the response of a request. Requests the key and repeats if the service requires one. */
export async function request(address, options = {}) {
  for (;;) {
    const used = key;
    let response;
    try {
      response = await fetch(address, { ...options, headers: { ...options.headers, ...(used && { "api-key": used }) } });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Failure(0, "The service does not answer", "Check the connection, and that the service is running.");
    }
    if (response.status === 401) {
      await renew(used);
      continue;
    }
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    const retry = Number(response.headers.get("retry-after"));
    throw new Failure(response.status, problem.title ?? response.statusText, problem.detail ?? "", retry || null);
  }
}

export const info = async () => (await request("v1/info")).json();

/** Returns the answer of a search. `query` has a code, a key, an id, or an image file. */
export async function search(query, fields, signal) {
  const options = { method: "POST", signal };
  if (query.image) {
    options.body = new FormData();
    options.body.set("image", query.image, query.image.name || "image");
    for (const [name, value] of Object.entries(fields)) {
      options.body.set(name, typeof value === "object" ? JSON.stringify(value) : String(value));
    }
  } else {
    options.headers = { "content-type": "application/json" };
    options.body = JSON.stringify({ ...query, ...fields });
  }
  return (await request("v1/search", options)).json();
}
