// Events as they come in, whoever sends them.

import { eventsAfter } from "./api.js";
import { make, shown } from "./element.js";

const EVERY = 2000; // ms
const AT_ONCE = 100;
const KEPT = 12;

function clock(time) {
  const seconds = typeof time === "number" ? 1000 * time : Date.parse(time);
  return Number.isFinite(seconds) ? new Date(seconds).toLocaleTimeString([], { hour12: false }) : "";
}

function entry(event) {
  const context = Object.values(event.context ?? {}).map(shown).join(", ");
  return make("li", {},
    make("span", { class: "who" }, shown(event.user)), " ",
    make("span", { class: "what" }, shown(event.item)),
    make("span", { class: "when" }, [clock(event.time), context].filter(Boolean).join(" · ")));
}

/** Ask every two seconds while the page is looked at; told(events) hears of new ones. */
export function liveEvents(list, state, told) {
  let position = null;
  let timer = 0;

  async function look() {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const found = await eventsAfter(position, AT_ONCE);
      const first = position === null;
      position = found.position;
      show(found.events);
      if (!first && found.events.length) told(found.events);
    } catch (problem) {
      state.textContent = problem.status === 404 ? "not kept" : "";
      if (problem.status === 404) return;
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
