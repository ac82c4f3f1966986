// The page: a form on the left and the recommendations, requested again on every change.

import * as api from "./api.js";
import { card } from "./card.js";
import { combobox } from "./combobox.js";
import { contextFields } from "./context.js";
import { byId, make, shown } from "./element.js";
import { liveEvents } from "./events.js";
import { itemList } from "./list.js";
import { asked, complete, fromAddress, situation, START, toAddress } from "./question.js";
import { grouped, groupsOf } from "./terms.js";

const GOOD = "in service";
const SUGGESTED = 12;
const TIME = "timestamp"; // the context column that a request calls `time`
const COLOURS = 10;
const VISIBLE = 0.01; // of the largest part of a score
const SLOW = 150; // ms until a list is shown as loading

let question = fromAddress(location.hash);
let contexts = [];
let inService = []; // ids of the models
let showContext = () => {};
let running = null;
let answered = null; // whom the list is for

const list = itemList(byId("list"), actions);
const who = combobox(byId("user"), byId("user-options"), {
  keep: true,
  search: (text, signal) => api.ids("users", text, SUGGESTED, signal).then((found) => found.ids),
  choose: (user) => change({ user }),
});
combobox(byId("history"), byId("history-options"), {
  keep: false,
  search: (text, signal) => api.ids("items", text, SUGGESTED, signal).then((found) => found.ids),
  choose: (item) => change({ history: [...question.history, item] }),
});

function change(parts) {
  question = { ...question, ...parts };
  history.replaceState(null, "", toAddress(question));
  showQuestion();
  ask();
}

function showQuestion() {
  const visitor = question.kind === "visitor";
  byId("kind-user").checked = !visitor;
  byId("kind-visitor").checked = visitor;
  byId("user-field").hidden = visitor;
  byId("history-field").hidden = !visitor;
  who.show(question.user);
  byId("chips").replaceChildren(...question.history.map(chip));
  byId("n").value = String(question.n);
  showContext((name) => (name === TIME ? question.time : question.context[name]) ?? null);
}

function chip(item, number) {
  const remove = () => {
    change({ history: question.history.filter((_, other) => other !== number) });
    byId("history").focus();
  };
  return make("li", {}, make("span", {}, shown(item)),
    make("button", { type: "button", "aria-label": `Remove ${shown(item)}`, onclick: remove }, "×"));
}

async function ask() {
  running?.abort();
  if (!complete(question)) {
    fail(null);
    clear("Choose a user, or describe a visitor.");
    return;
  }
  running = new AbortController();
  const { signal } = running;
  const slow = setTimeout(() => byId("list").classList.add("waiting"), SLOW);
  try {
    showAnswer(await api.recommend(asked(question), signal));
    fail(null);
  } catch (problem) {
    if (problem.name !== "AbortError") fail(problem);
  } finally {
    clearTimeout(slow);
    if (!signal.aborted) byId("list").classList.remove("waiting");
  }
}

function showAnswer({ items, arm, model, unknown }) {
  if (!inService.includes(model)) api.model().then(showModel, () => {}); // the model was replaced
  const person = question.kind === "visitor" ? "a visitor" : shown(question.user);
  const same = answered === person;
  answered = person;
  list.show(items, contexts, colourOf, same);
  showLegend(items);
  const told = [`${items.length} items for ${person}`, situation(question), inService.length > 1 && `by ${arm}`,
    unknown && `not known to the model: ${unknown.join(", ")}`];
  byId("summary").textContent = items.length ? told.filter(Boolean).join(" · ") : `Nothing to recommend to ${person}.`;
}

/** Show the groups that are visible in some bar. */
function showLegend(items) {
  const sums = items.flatMap((item) => [...grouped(item.terms ?? [], contexts)]);
  const least = VISIBLE * Math.max(0, ...sums.map(([, sum]) => Math.abs(sum)));
  const seen = new Set(sums.filter(([, sum]) => sum !== 0 && Math.abs(sum) >= least).map(([name]) => name));
  const entry = (colour, name) => make("li", {}, make("span", { class: `swatch ${colour}` }), name);
  const groups = groupsOf(contexts).filter((name) => seen.has(name));
  const entries = groups.map((name) => entry(colourOf(name), name));
  byId("legend").replaceChildren(...entries, ...(groups.length ? [entry("of-score", "score")] : []));
}

/** The class of a group's colour; the item alone is grey. */
function colourOf(group) {
  if (group === "item alone") return "colour-alone";
  return `colour-${groupsOf(contexts).indexOf(group) % COLOURS}`;
}

function fail(problem) {
  const place = byId("problem");
  place.hidden = problem === null;
  place.textContent = problem?.message ?? "";
  byId("key-form").hidden = problem?.status !== 401;
  if (problem !== null) clear("");
}

function clear(text) {
  list.clear();
  byId("legend").replaceChildren();
  byId("summary").textContent = text;
}

function actions(item) {
  if (question.kind === "visitor") {
    return [{ text: "Add to history", act: () => change({ history: [...question.history, item] }) }];
  }
  return [{ text: `Send event: ${shown(question.user)} chose this`, act: () => tell(item) }];
}

/** Send an event to the service. */
async function tell(item) {
  const { user, context } = question;
  try {
    await api.tell({ user, item, context });
    lookForEvents();
    ask();
  } catch (problem) {
    byId("problem").hidden = false;
    byId("problem").textContent = problem.message;
  }
}

let lookForEvents = () => {};

function showState(text) {
  const place = byId("service");
  if (place.textContent !== text) place.textContent = text; // announced once by screen readers
  place.classList.toggle("good", text === GOOD);
}

async function start() {
  try {
    showModel(await api.model());
  } catch (problem) {
    showState(problem.status === 401 ? "key required" : "unreachable");
    fail(problem);
    return;
  }
  showState(GOOD);
  const own = (events) => events.some((event) => question.kind === "user" && event.user === question.user);
  lookForEvents = liveEvents(byId("events"), byId("events-state"),
    (events) => own(events) && ask(), (reached) => showState(reached ? GOOD : "unreachable"));
  ask();
}

function showModel({ models }) {
  const [{ context, model }] = models; // the current model
  contexts = context.map((field) => field.name);
  inService = models.map((one) => one.model);
  byId("model-name").textContent = shown(model);
  byId("cards").replaceChildren(...models.map(card));
  byId("context").hidden = !context.length;
  byId("context-fields").replaceChildren();
  showContext = contextFields(byId("context-fields"), context, ({ name }, value) => {
    const { [name]: _, ...others } = question.context;
    if (name === TIME) change({ time: value });
    else change({ context: value === null ? others : { ...others, [name]: value } });
  });
  showQuestion();
}

byId("ask").addEventListener("submit", (event) => event.preventDefault());
for (const kind of ["user", "visitor"]) byId(`kind-${kind}`).addEventListener("change", () => change({ kind }));
byId("n").addEventListener("change", (event) => change({ n: Number(event.target.value) }));
byId("reset").addEventListener("click", () => change({ ...START }));
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useKey(byId("key").value);
  byId("key").value = "";
  start();
});
addEventListener("hashchange", () => {
  question = fromAddress(location.hash);
  showQuestion();
  ask();
});
start();
