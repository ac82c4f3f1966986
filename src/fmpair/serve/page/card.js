// The model card.

import { make, shown } from "./element.js";

const number = (value) =>
  Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));

function text(value) {
  if (Array.isArray(value)) return value.map(text).join(", ");
  if (typeof value === "number") return number(value);
  if (value !== null && typeof value === "object") return JSON.stringify(value);
  return shown(value);
}

function when(text) {
  const time = Date.parse(text);
  return Number.isFinite(time) ? new Date(time).toLocaleString("sv", { dateStyle: "short", timeStyle: "short" }) : text;
}

function entry([name, value]) {
  const long = typeof value === "string" && value.length > 22;
  return make("div", { class: long ? "long" : "" },
    make("dt", {}, name.replaceAll("_", " ")), make("dd", { title: long ? value : null }, text(value)));
}

const empty = (value) => value === null || value === undefined || value === "" || (typeof value === "object" && !Object.keys(value).length);
const given = ([, value]) => !empty(value);
const rows = (pairs) => make("dl", { class: "card" }, ...pairs.filter(given).map(entry));

/** A model with its facts; its options, and the checksums that identify it, are folded. */
export function card(about, _, all) {
  const { model, recipe, users, items, factors, metrics, checksum, saved, loaded, options } = about;
  const { fingerprint, ...data } = about.data ?? {};
  const facts = [
    ["arm", all.length > 1 ? about.arm : null], ["recipe", recipe], ["users", users], ["items", items], ["factors", factors],
    ...Object.entries(data), ...Object.entries(metrics ?? {}),
    ["saved", saved && when(saved)], ["loaded", loaded && when(loaded)],
  ];
  const more = (title, pairs) => pairs.some(given) && make("details", { class: "options" }, make("summary", {}, title), rows(pairs));
  const identity = [["model", model], ["checksum", checksum], ["data", fingerprint]];
  return make("div", { class: "model-card" }, rows(facts),
    ...[more("Options", Object.entries(options ?? {})), more("File", identity)].filter(Boolean));
}
