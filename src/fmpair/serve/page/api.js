// The service's answers, and what it says when there is none.

const KEY = "fmpair-key";
const CANNOT_BE = 422; // what was asked for is understood, and cannot be

/** What went wrong, in the service's own line. */
export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** The key for services beyond this machine: kept until the tab is closed. */
export const useKey = (key) => sessionStorage.setItem(KEY, key);

function headers(body) {
  const key = sessionStorage.getItem(KEY);
  return {
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    ...(key ? { Authorization: `Bearer ${key}` } : {}),
  };
}

/** GET without a body, POST with one. Addresses are relative: the service may lie under a path. */
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
    return {}; // what stands in front of the service may answer in other ways
  });
  if (!answer.ok) throw new Problem(answer.status, found.detail || found.title || answer.statusText);
  return found;
}

export const model = () => call("v1/model");

/** Some models cannot say why, or not of everybody: then without. */
export async function recommend(question, signal) {
  const path = "v1/recommend";
  try {
    return await call(path, { body: question, signal });
  } catch (problem) {
    if (problem.status !== CANNOT_BE || !question.explain) throw problem;
    return call(path, { body: { ...question, explain: false }, signal });
  }
}

export const similar = (item, n, signal) => call("v1/similar", { body: { item, n }, signal });
export const ids = (kind, prefix, n, signal) =>
  call(`v1/${kind}?${new URLSearchParams({ prefix, n })}`, { signal });
export const eventsAfter = (position, n) =>
  call(`v1/events?${new URLSearchParams(position === null ? { n } : { after: position, n })}`);
export const tell = (event) => call("v1/events", { body: { events: [event] } });
