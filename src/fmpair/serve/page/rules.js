// Rules as they are typed, and the names and columns that they can be about.

import { Problem } from "./api.js";
import { byId, make } from "./element.js";

const INVALID = 422;
const DIVERSITY = [0.3, 0.5, 0.7]; // to choose from

export const NONE = Object.freeze({ rules: "", where: "", limit: "", boost: "", diversity: 0 });
const TYPED = ["where", "limit", "boost"];

/** The parts between semicolons, except semicolons in double quotes. */
const parts = (text) => (text.match(/(?:[^;"]|"[^"]*"?)+/g) ?? []).map((part) => part.trim()).filter(Boolean);

/** [what stands before the last =, the number behind it]. */
function assigned(part, example) {
  const sign = part.lastIndexOf("=");
  const [name, number] = [part.slice(0, sign).trim(), part.slice(sign + 1).trim()];
  if (sign < 1 || number === "" || !Number.isFinite(Number(number))) throw new Problem(INVALID, `Write ${example}, not ${part}.`);
  return [name, Number(number)];
}

const limits = (text) => Object.fromEntries(parts(text).map((part) => assigned(part, "brand=2")));

function boosts(text) {
  const found = {};
  for (const part of parts(text)) {
    const [target, amount] = assigned(part, "brand:ACME=0.3");
    const [, column, value] = target.match(/^([^:]+):(.+)$/) ?? [];
    if (value === undefined) throw new Problem(INVALID, `Write brand:ACME=0.3, not ${part}.`);
    (found[column.trim()] ??= {})[value.trim()] = amount;
  }
  return found;
}

/** The rules of a request, without those that are not given. */
export function rulesAsked({ rules, where, limit, boost, diversity }) {
  const all = { rules, where: parts(where), limit: limits(limit), boost: boosts(boost), diversity };
  return Object.fromEntries(Object.entries(all).filter(([, one]) => (typeof one === "object" ? Object.keys(one).length : one)));
}

/** The rules in the fields of a URL. */
export function rulesRead(fields) {
  const texts = ["rules", ...TYPED].map((name) => [name, fields.get(name) ?? ""]);
  const diversity = DIVERSITY.find((one) => one === Number(fields.get("diversity"))) ?? 0;
  return { ...Object.fromEntries(texts), diversity };
}

/** Call change({name: value}) on changes; return show(rules) and know(names, columns). */
export function ruleFields(change) {
  const text = (name) => byId(name).addEventListener("change", (event) => change({ [name]: event.target.value.trim() }));
  ["rules", ...TYPED].forEach(text);
  byId("diversity").addEventListener("change", (event) => change({ diversity: Number(event.target.value) }));

  /** names: of the rules of the service; columns: of the items. */
  function know(names, columns) {
    byId("rules").replaceChildren(make("option", { value: "" }, "none"), ...names.map((name) => make("option", { value: name }, name)));
    byId("rules-field").hidden = !names.length;
    for (const name of TYPED) {
      byId(`${name}-field`).hidden = !columns.length;
      const sign = name === "boost" ? ":" : "=";
      byId(`${name}-columns`).replaceChildren(...columns.map((column) => make("option", { value: `${column}${sign}` })));
    }
  }

  /** A name that the service does not know is shown, since it is asked. */
  function show(question) {
    for (const name of ["rules", ...TYPED, "diversity"]) byId(name).value = String(question[name]);
    if (question.rules && byId("rules").value !== question.rules) {
      byId("rules").append(make("option", { value: question.rules }, question.rules));
      byId("rules").value = question.rules;
      byId("rules-field").hidden = false;
    }
  }

  return { show, know };
}
