// Bars of the items of a list, and of the terms of a score.

import { make, plain, signed } from "./element.js";
import { nameOf as titleOf } from "./names.js";
import { grouped, groupOf, HISTORY, parts, scale, stacked, waterfall } from "./terms.js";

const MOST_TERMS = 9;
const VISIBLE = 0.01; // of the largest term

function place(element, at, from, to) {
  const [left, right] = [at(Math.min(from, to)), at(Math.max(from, to))];
  element.style.left = `${left}%`; // by property: the policy forbids style attributes
  element.style.width = `${right - left}%`;
  return element;
}

function mark(name, at, value) {
  const line = make("span", { class: name });
  line.style.left = `${at(value)}%`;
  return line;
}

/** The pieces of an item's bar; one piece without terms. */
const piecesOf = (item, contexts) =>
  stacked(item.terms?.length ? grouped(item.terms, contexts) : new Map([["item alone", item.score]]));

/** The scale that all bars of a list share. */
export function sharedScale(items, contexts) {
  const ends = items.map((item) => piecesOf(item, contexts));
  return scale(Math.min(0, ...ends.map((end) => end.low)), Math.max(0, ...ends.map((end) => end.high)));
}

/** A score as one bar: positive parts to the right, negative ones to the left. */
export function summaryBar(item, contexts, colourOf, at) {
  const { bars } = piecesOf(item, contexts);
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, mark("zero", at, 0));
  for (const { name, value, from, to } of bars) {
    const piece = make("span", { class: `piece ${colourOf(name)}`, title: `${name} ${signed(value)}` });
    bar.append(place(piece, at, from, to));
  }
  bar.append(mark("total", at, item.score));
  return bar;
}

function label(text, item) {
  const [field, value] = parts(text);
  if (field === "item" && value === String(item)) return [make("span", { class: "muted" }, "item")];
  if (field === HISTORY) return [make("span", { class: "muted" }, `${field} `), titleOf(value)];
  return value === "" ? [field] : [make("span", { class: "muted" }, `${field} `), value];
}

function nameOf(term, item) {
  if (term.smaller) return [make("span", { class: "muted" }, `${term.smaller} smaller terms`)];
  const own = `item=${item}`;
  if (term.query !== "") {
    const other = term.item === own ? [] : [" × ", ...label(term.item, item)];
    return [...label(term.query, item), ...other];
  }
  if (term.item === own) return [make("span", { class: "muted" }, "item alone")];
  if (!term.item.startsWith(`${own} x `)) return [...label(term.item, item)];
  return [...label(own, item), " × ", ...label(term.item.slice(`${own} x `.length), item)];
}

/** A row of the table of terms: name, bar, number. */
function line(name, colour, at, [from, to], text) {
  const heading = make("th", { scope: "row" }, ...name);
  heading.title = heading.textContent; // in case it is cut off
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, mark("zero", at, 0));
  bar.append(place(make("span", { class: `piece ${colour}` }), at, from, to));
  return make("tr", {}, heading, make("td", {}, bar), make("td", { class: "value" }, text));
}

const columns = () => [
  make("colgroup", {}, make("col", { class: "of-term" }), make("col"), make("col", { class: "of-value" })),
  make("thead", { class: "heard" },
    make("tr", {}, ...["Term", "Bar", "Value"].map((name) => make("th", { scope: "col" }, name)))),
];

/** A table of terms as a waterfall up to the score. */
export function termTable(item, contexts, colourOf) {
  const steps = waterfall(item.terms, MOST_TERMS, VISIBLE);
  const ends = steps.flatMap(({ from, to }) => [from, to]);
  const at = scale(Math.min(0, ...ends), Math.max(0, ...ends));
  const colour = (term) => (term.smaller ? "rest" : colourOf(groupOf(term, contexts)));
  const lines = steps.map(({ term, from, to }) =>
    line(nameOf(term, item.item), colour(term), at, [from, to], signed(term.value)));
  const sum = line(["Score"], "total-piece", at, [0, steps.length ? steps.at(-1).to : 0], plain(item.score));
  return make("table", { class: "terms" },
    make("caption", {}, "Why: the terms add up to the score"), ...columns(),
    make("tbody", {}, ...lines), make("tfoot", {}, sum));
}
