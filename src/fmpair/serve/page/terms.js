// The terms of a score: their groups and the geometry of their bars.

export const HISTORY = "history";

/** Split `daytime=evening` into column and value ("" if there is none). */
export function parts(label) {
  const at = label.indexOf("=");
  return at < 0 ? [label, ""] : [label.slice(0, at), label.slice(at + 1)];
}

/** The group of a term: user, a context column, both, history, or item alone. */
export function groupOf(term, contexts) {
  if (term.query === "") return "item alone";
  const field = parts(term.query)[0].split(" in (")[0];
  const crossed = contexts.find((name) => term.query.includes(` x ${name}=`)); // terms of order three
  if (crossed !== undefined && field === "user") return together(crossed);
  if (field === "user" || field === "a usual user") return "user";
  if (field.split(".")[0] === HISTORY) return HISTORY;
  const own = contexts.find((name) => field === name || field.startsWith(`${name}.`));
  return own ?? "user’s attributes";
}

/** The items of the history that terms are about. */
export const earlier = (terms) =>
  [...new Set((terms ?? []).map(({ query }) => parts(query)).filter(([field]) => field === HISTORY).map(([, item]) => item))];

const together = (context) => `user × ${context}`;

/** All groups, in the order of their colours. */
export const groupsOf = (contexts) =>
  ["user", "user’s attributes", HISTORY, ...contexts, ...contexts.map(together), "item alone"];

/** The sum of the terms of each group, as a Map in the order of the groups. */
export function grouped(terms, contexts) {
  const sums = new Map(groupsOf(contexts).map((name) => [name, 0]));
  for (const term of terms) {
    const group = groupOf(term, contexts);
    sums.set(group, (sums.get(group) ?? 0) + term.value);
  }
  return sums;
}

/** Stacked bars, negative ones to the left of zero: {bars, low, high}. */
export function stacked(sums) {
  let low = 0;
  let high = 0;
  const bars = [];
  for (const [name, value] of sums) {
    if (value === 0) continue;
    if (value > 0) bars.push({ name, value, from: high, to: (high += value) });
    else bars.push({ name, value, to: low, from: (low += value) });
  }
  return { bars, low, high };
}

/** Merge terms of equal labels: an item may occur in a history more than once. */
function merged(terms) {
  const found = new Map();
  for (const term of terms) {
    const key = JSON.stringify([term.query, term.item]);
    const same = found.get(key);
    found.set(key, same ? { ...same, value: same.value + term.value } : term);
  }
  return [...found.values()];
}

/** The largest terms, at least a share of the first, and the sum of the others, as consecutive bars. */
export function waterfall(terms, most, share) {
  const sorted = merged(terms).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const least = share * Math.abs(sorted[0]?.value ?? 0);
  const count = Math.min(most, sorted.filter(({ value }) => Math.abs(value) >= least).length);
  const rest = sorted.slice(count);
  const steps = sorted.slice(0, count);
  if (rest.length === 1) steps.push(rest[0]);
  else if (rest.length > 1) {
    const value = rest.reduce((sum, term) => sum + term.value, 0);
    steps.push({ smaller: rest.length, value });
  }
  let end = 0;
  return steps.map((term) => ({ term, from: end, to: (end += term.value) }));
}

/** A function from a value to a position in percent, with some margin. */
export function scale(low, high) {
  const width = high - low || 1;
  const first = low - (low < 0 ? 0.02 * width : 0);
  const last = high + 0.02 * width;
  return (value) => (100 * (value - first)) / (last - first);
}
