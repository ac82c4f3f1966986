// The list. Rows keep their elements between answers, so that they can move.

import { sharedScale, summaryBar, termTable } from "./bars.js";
import { make, plain } from "./element.js";
import { inFull, learn, learnOf, nameOf, picture } from "./names.js";
import { similarItems } from "./similar.js";
import { earlier } from "./terms.js";

const MOVE = { duration: 260, easing: "cubic-bezier(.2, .7, .2, 1)" };
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const keyOf = (id) => JSON.stringify(id);

/** How a row moved since the previous list. */
function movement(rank, before) {
  if (before === undefined) return { text: "new", heard: "new in the list", kind: "new" };
  if (before === rank) return { text: "", heard: "", kind: "same" };
  const by = Math.abs(before - rank);
  return before > rank
    ? { text: `↑ ${by}`, heard: `up ${by}`, kind: "up" }
    : { text: `↓ ${by}`, heard: `down ${by}`, kind: "down" };
}

/** actions(item): [{text, act}], the buttons of an open row. */
export function itemList(list, actions) {
  const rows = new Map();
  let ranks = null;
  let made = 0;

  function row(item) {
    const id = `row-${(made += 1)}`;
    const parts = {
      rank: make("span", { class: "rank" }),
      move: make("span", { class: "move", "aria-hidden": "true" }),
      moved: make("span", { class: "heard" }),
      score: make("span", { class: "score" }),
      bar: make("span", { class: "bar" }),
      detail: make("div", { class: "detail", id, hidden: true }),
    };
    parts.head = make("button", { type: "button", class: "head", "aria-expanded": "false", "aria-controls": id },
      parts.rank, make("span", { class: "name", title: inFull(item.item) }, picture(item.item), nameOf(item.item)),
      parts.move, parts.bar, parts.score, parts.moved);
    parts.whole = make("li", { class: "row" }, parts.head, parts.detail);
    parts.head.addEventListener("click", () => toggle(parts));
    return parts;
  }

  function toggle(parts) {
    const open = parts.detail.hidden;
    parts.detail.hidden = !open;
    parts.head.setAttribute("aria-expanded", String(open));
    if (open) fill(parts);
    else parts.similar = undefined;
  }

  function fill(parts) {
    const { item, contexts, colourOf } = parts;
    parts.similar ??= similarItems(item.item);
    const buttons = actions(item.item).map(({ text, act }) =>
      make("button", { type: "button", class: "act", onclick: act }, text));
    const why = item.terms?.length
      ? termTable(item, contexts, colourOf)
      : make("p", { class: "muted" }, "This model cannot explain its scores.");
    const held = parts.detail.contains(document.activeElement) ? document.activeElement.textContent : null;
    parts.detail.replaceChildren(why, parts.similar, make("div", { class: "acts" }, ...buttons));
    learnOf(earlier(item.terms)).then((learned) => learned && parts.item === item && !parts.detail.hidden && fill(parts));
    // Keep the keyboard focus across answers.
    [...parts.detail.querySelectorAll("button")].find((button) => button.textContent === held)?.focus();
  }

  function update(parts, item, scene) {
    const { contexts, colourOf, at, before } = scene;
    Object.assign(parts, { item, contexts, colourOf });
    const { text, heard, kind } = before ? movement(item.rank, before.get(keyOf(item.item))) : movement(0, 0);
    parts.rank.textContent = item.rank;
    parts.move.textContent = text;
    parts.move.className = `move ${kind}`;
    parts.moved.textContent = heard && `, ${heard}`;
    parts.score.textContent = plain(item.score);
    const bar = summaryBar(item, contexts, colourOf, at);
    parts.bar.replaceWith(bar);
    parts.bar = bar;
    if (!parts.detail.hidden) fill(parts);
  }

  function moved(places) {
    if (calm.matches) return;
    for (const [element, top] of places) {
      const by = top - element.getBoundingClientRect().top;
      if (element.isConnected && by) element.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], MOVE);
    }
  }

  /**
   * Show the items of an answer; same: whether the previous one was for the same user; beside: the
   * items of a list next to it, which shares its scale.
   */
  function show(items, contexts, colourOf, same, beside = []) {
    items.forEach((item) => learn(item.item, item.columns));
    const places = new Map([...list.children].map((element) => [element, element.getBoundingClientRect().top]));
    const scene = { contexts, colourOf, at: sharedScale([...items, ...beside], contexts), before: same ? ranks : null };
    const kept = items.map((item) => {
      const key = keyOf(item.item);
      const parts = rows.get(key) ?? row(item);
      rows.set(key, parts);
      update(parts, item, scene);
      return parts.whole;
    });
    const wanted = new Set(items.map((item) => keyOf(item.item)));
    for (const key of rows.keys()) if (!wanted.has(key)) rows.delete(key);
    ranks = new Map(items.map((item) => [keyOf(item.item), item.rank]));
    arrange(kept);
    moved(places);
  }

  /** Put rows in order; rows in place are not touched, so that they keep the focus. */
  function arrange(wanted) {
    const stay = new Set(wanted);
    for (const element of [...list.children]) if (!stay.has(element)) element.remove();
    const focused = document.activeElement;
    wanted.forEach((element, number) => {
      if (list.children[number] !== element) list.insertBefore(element, list.children[number] ?? null);
    });
    if (list.contains(focused)) focused.focus({ preventScroll: true });
  }

  function clear() {
    rows.clear();
    ranks = null;
    list.replaceChildren();
  }

  return { show, clear };
}
