// The latest events of all clients.

import { eventsAfter, ids } from "./api.js";
import { make, shown } from "./element.js";
import { inFull, learnTitles, nameOf, unnamed } from "./names.js";

const EVERY = 2000; // ms
const AT_ONCE = 100;
const KEPT = 12;
const NOT_STORED = 501; // the service has no event store

function clock(time) {
  const seconds = typeof time === "number" ? 1000 * time : Date.parse(time);
  return Number.isFinite(seconds) ? new Date(seconds).toLocaleTimeString([], { hour12: false }) : "";
}

function entry(event) {
  const context = [event.event, ...Object.values(event.context ?? {}).map(shown)].filter(Boolean).join(", ");
  return make("li", {},
    make("span", { class: "who" }, shown(event.user)), " ",
    make("span", { class: "what", title: inFull(event.item) }, nameOf(event.item)),
    make("span", { class: "when" }, [clock(event.time), context].filter(Boolean).join(" · ")));
}

/** Ask for the titles of items that no list had. */
async function learnNames(events) {
  const items = [...new Set(events.slice(-KEPT).map((event) => event.item))].filter(unnamed);
  const learned = items.map((item) => ids("items", shown(item), 1).then((found) => learnTitles(found.ids, found.titles)));
  await Promise.allSettled(learned);
}

/**
 * Poll every two seconds while the page is visible. told(events) is called with new events,
 * reached(true or false) with whether the service answers.
 */
export function liveEvents(list, state, told, reached) {
  let position = null;
  let timer = 0;

  async function look() {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const found = await eventsAfter(position, AT_ONCE);
      const first = position === null;
      position = found.position;
      await learnNames(found.events);
      show(found.events);
      reached(true);
      if (!first && found.events.length) told(found.events);
    } catch (problem) {
      reached(problem.status !== 0);
      state.textContent = problem.status === NOT_STORED ? "not stored" : "not available";
      if (problem.status === NOT_STORED) return;
    }
    timer = setTimeout(look, EVERY);
  }

  function show(events) {
    list.prepend(...events.map(entry).reverse());
    while (list.children.length > KEPT) list.lastChild.remove();
    state.textContent = list.children.length ? "" : "none yet";
  }

  document.addEventListener("visibilitychange", look);
  look();
  return look;
}
