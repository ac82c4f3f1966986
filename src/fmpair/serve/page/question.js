// The request of the page, and its form in the URL, which can be shared.

import { shown } from "./element.js";
import { NONE, rulesAsked, rulesRead } from "./rules.js";

export const START = Object.freeze({
  kind: "user",
  user: null,
  history: Object.freeze([]),
  context: Object.freeze({}),
  time: null,
  n: 10,
  ...NONE,
});

/** The body of the request; throws a problem if a rule cannot be read. */
export function asked(question) {
  const { kind, user, history, context, time, n } = question;
  const who = kind === "visitor" ? { history } : user === null ? {} : { user }; // null: anyone
  return { ...who, context, time, n, explain: true, ...rulesAsked(question) };
}

/** The context as text, with names for what is not text. */
export const situation = ({ context }) =>
  Object.entries(context).map(([name, value]) => (typeof value === "string" ? value : `${name} ${shown(value)}`)).join(", ");

/** Whom the list is for. */
export function person({ kind, user }) {
  if (kind === "visitor") return "a visitor";
  return user === null ? "anyone" : shown(user);
}

/** Ids and values as text in the URL; as JSON where text would be ambiguous. */
function written(id) {
  if (typeof id !== "string") return JSON.stringify(id);
  return read(id) === id ? id : JSON.stringify(id);
}

function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** `#user=ann&context.daytime=evening`. */
export function toAddress({ kind, user, history, context, time, n, ...rules }) {
  const parts = new URLSearchParams();
  if (kind === "visitor") parts.set("visitor", "");
  else if (user !== null) parts.set("user", written(user));
  if (kind === "visitor") history.forEach((item) => parts.append("item", written(item)));
  for (const [name, value] of Object.entries(context)) parts.set(`context.${name}`, written(value));
  if (time !== null) parts.set("time", time);
  if (n !== START.n) parts.set("n", n);
  for (const name of Object.keys(NONE)) if (rules[name]) parts.set(name, rules[name]);
  return `#${parts}`;
}

export function fromAddress(address) {
  const parts = new URLSearchParams(address.replace(/^#/, ""));
  const context = {};
  for (const [name, value] of parts) {
    if (name.startsWith("context.")) context[name.slice("context.".length)] = read(value);
  }
  const user = parts.get("user");
  const n = Number(parts.get("n"));
  return {
    kind: parts.has("visitor") ? "visitor" : "user",
    user: user === null ? null : read(user),
    history: parts.getAll("item").map(read),
    context,
    time: parts.get("time"),
    n: [5, 10, 20, 50].includes(n) ? n : START.n,
    ...rulesRead(parts),
  };
}
