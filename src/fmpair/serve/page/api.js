// Requests to the service.

const KEY = "fmpair-key";
const INVALID = 422; // understood, but not possible

/** An error, with the message of the service. */
export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Keep the API key until the tab is closed. */
export const useKey = (key) => sessionStorage.setItem(KEY, key);

function headers(body) {
  const key = sessionStorage.getItem(KEY);
  return {
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    ...(key ? { Authorization: `Bearer ${key}` } : {}),
  };
}

/** GET without a body, POST with one. Paths are relative: a proxy may add a prefix. */
export async function call(path, { body, signal } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: headers(body),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service cannot be reached.");
  }
  const found = await answer.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return {}; // a proxy may answer without JSON
  });
  if (!answer.ok) throw new Problem(answer.status, found.detail || found.title || answer.statusText);
  return found;
}

export const model = () => call("v1/model");

/** Some models cannot explain their scores, or not for every user: retry without. */
export async function recommend(question, signal) {
  const path = "v1/recommend";
  try {
    return await call(path, { body: question, signal });
  } catch (problem) {
    if (problem.status !== INVALID || !question.explain) throw problem;
    return call(path, { body: { ...question, explain: false }, signal });
  }
}

export const similar = (item, n, show) => call("v1/similar", { body: { item, n, show } });
export const ids = (kind, prefix, n, signal) =>
  call(`v1/${kind}?${new URLSearchParams({ prefix, n })}`, { signal });
export const eventsAfter = (position, n) =>
  call(`v1/events?${new URLSearchParams(position === null ? { n } : { after: position, n })}`);
export const tell = (event) => call("v1/events", { body: { events: [event] } });
