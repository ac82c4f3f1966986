// The page: a form on the left and the recommendations, requested again on every change.

import * as api from "./api.js";
import { card } from "./card.js";
import { combobox } from "./combobox.js";
import { contextFields } from "./context.js";
import { byId, make, shown } from "./element.js";
import { liveEvents } from "./events.js";
import { itemList } from "./list.js";
import { inFull, learn, learnTitles, nameOf, useColumns, wanted } from "./names.js";
import { asked, fromAddress, person, situation, START, toAddress } from "./question.js";
import { ruleFields } from "./rules.js";
import { grouped, groupsOf } from "./terms.js";

const GOOD = "in service";
const SUGGESTED = 12;
const EXAMPLES = 4; // users
const ARMS = ["current", "candidate"];
const TIME = "timestamp"; // the context column that a request calls `time`
const COLOURS = 10;
const VISIBLE = 0.01; // of the largest part of a score
const SLOW = 150; // ms until a list is shown as loading

let question = fromAddress(location.hash);
let contexts = [];
let inService = []; // ids of the models
let arms = []; // two if they are compared
let showContext = () => {};
let running = null;
let answered = null; // whom the list is for

const rules = ruleFields(change);
const lists = [itemList(byId("list"), actions), itemList(byId("other-list"), actions)];
const who = combobox(byId("user"), byId("user-options"), {
  keep: true,
  search: (text, signal) => api.ids("users", text, SUGGESTED, signal).then((found) => found.ids),
  choose: (user) => change({ user }),
});
combobox(byId("history"), byId("history-options"), {
  keep: false,
  label: nameOf,
  search: (text, signal) => api.ids("items", text, SUGGESTED, signal).then(({ ids, titles }) => {
    learnTitles(ids, titles);
    return ids;
  }),
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
  rules.show(question);
  byId("examples").hidden = visitor || question.user !== null || !byId("examples").children.length;
  showContext((name) => (name === TIME ? question.time : question.context[name]) ?? null);
}

function chip(item, number) {
  const remove = () => {
    change({ history: question.history.filter((_, other) => other !== number) });
    byId("history").focus();
  };
  return make("li", {}, make("span", { title: inFull(item) }, nameOf(item)),
    make("button", { type: "button", "aria-label": `Remove ${nameOf(item)}`, onclick: remove }, "×"));
}

async function ask() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const slow = setTimeout(() => byId("lists").classList.add("waiting"), SLOW);
  try {
    const body = { ...asked(question), show: wanted() };
    const bodies = arms.length > 1 ? arms.map((arm) => ({ ...body, arm })) : [body];
    showAnswers(await Promise.all(bodies.map((one) => api.recommend(one, signal))));
    fail(null);
  } catch (problem) {
    if (problem.name !== "AbortError") fail(problem);
  } finally {
    clearTimeout(slow);
    if (!signal.aborted) byId("lists").classList.remove("waiting");
  }
}

/** Show the list of the model, or those of both arms side by side. */
function showAnswers(answers) {
  if (answers.some(({ model }) => !inService.includes(model))) api.model().then(showModel, () => {}); // replaced
  const who = person(question);
  const same = answered === who;
  answered = who;
  const items = answers.flatMap((one) => one.items);
  items.forEach((item) => learn(item.item, item.columns));
  byId("lists").classList.toggle("two", answers.length > 1);
  byId("other").hidden = answers.length < 2;
  byId("arm").hidden = answers.length < 2;
  answers.forEach((one, number) => {
    byId(number ? "other-arm" : "arm").textContent = one.arm;
    lists[number].show(one.items, contexts, colourOf, same, items);
  });
  showLegend(items);
  const { unknown, empty } = answers[0];
  const told = [`${answers[0].items.length} items for ${who}`, situation(question),
    unknown && `not known to the model: ${unknown.join(", ")}`];
  byId("summary").textContent = items.length ? told.filter(Boolean).join(" · ") : empty || `Nothing to recommend to ${who}.`;
}

/** A few users to begin with; a key may not be allowed to read them. */
async function showExamples() {
  const { ids } = await api.ids("users", "", EXAMPLES).catch(() => ({ ids: [] }));
  const example = (user) => make("button", { type: "button", class: "quiet", onclick: () => change({ user }) }, shown(user));
  byId("examples").replaceChildren(...(ids.length ? ["For example ", ...ids.map(example)] : []));
  showQuestion();
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
  lists.forEach((list) => list.clear());
  byId("legend").replaceChildren();
  byId("summary").textContent = text;
}

function actions(item) {
  if (question.kind === "visitor") {
    return [{ text: "Add to history", act: () => change({ history: [...question.history, item] }) }];
  }
  if (question.user === null) return [];
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
  showExamples();
  const own = (events) => events.some((event) => question.kind === "user" && event.user === question.user);
  lookForEvents = liveEvents(byId("events"), byId("events-state"),
    (events) => own(events) && ask(), (reached) => showState(reached ? GOOD : "unreachable"));
  ask();
}

function showModel({ models, rules: names }) {
  const [first] = models; // the current model
  rules.know(names, first.columns);
  const { context, recipe, items } = first;
  contexts = context.map((field) => field.name);
  inService = models.map((one) => one.model);
  arms = ARMS.filter((arm) => models.some((one) => one.arm === arm));
  useColumns(first);
  byId("model-name").textContent = `${recipe} · ${items.toLocaleString("en")} items`;
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
