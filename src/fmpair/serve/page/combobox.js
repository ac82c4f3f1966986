// A text field with suggestions (ARIA combobox): arrows move, Enter chooses, Escape closes.

import { make, shown } from "./element.js";

const WAIT = 80; // ms after a keystroke

/**
 * search(text, signal): a promise of ids; choose(id): called with the chosen one; keep: whether it
 * stays in the field; label(id): its text. Returns {show(id)}.
 */
export function combobox(input, listbox, { search, choose, keep, label = shown }) {
  let found = [];
  let active = -1;
  let chosen = null;
  let running = null;
  let timer = 0;

  function close() {
    clearTimeout(timer);
    running?.abort();
    listbox.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function activate(place) {
    active = place;
    [...listbox.children].forEach((option, number) => option.setAttribute("aria-selected", String(number === place)));
    const option = listbox.children[place];
    if (!option) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", option.id);
    return option.scrollIntoView({ block: "nearest" });
  }

  function take(id) {
    chosen = id;
    input.value = keep ? shown(id) : "";
    close();
    choose(id);
  }

  function open(ids, waiting = false) {
    found = ids;
    listbox.replaceChildren(
      ...ids.map((id, number) =>
        make("li", { id: `${listbox.id}-${number}`, role: "option", "aria-selected": "false", title: shown(id) }, label(id))));
    if (!ids.length) listbox.append(make("li", { class: "none" }, waiting ? "…" : "No matches"));
    listbox.hidden = false;
    input.setAttribute("aria-expanded", "true");
    activate(-1);
  }

  async function look() {
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    const text = keep && input.value === shown(chosen) ? "" : input.value;
    try {
      const ids = await search(text, signal);
      if (!signal.aborted && document.activeElement === input) open(ids);
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  }

  /** Remove what no longer matches at once, so that it cannot be chosen meanwhile. */
  function narrow() {
    const text = input.value.toLowerCase();
    const matches = (id) => shown(id).toLowerCase().startsWith(text) || (label !== shown && label(id).toLowerCase().includes(text));
    if (!listbox.hidden) open(found.filter(matches), true);
  }

  function soon() {
    narrow();
    clearTimeout(timer);
    timer = setTimeout(look, WAIT);
  }

  function enter() {
    const text = input.value.trim();
    if (active >= 0) return take(found[active]);
    if (text === "" || (keep && text === shown(chosen))) return close();
    const same = found.find((id) => shown(id) === text || label(id) === text);
    return take(same === undefined ? text : same); // the service reports unknown ids
  }

  input.addEventListener("input", soon);
  input.addEventListener("focus", () => keep && input.select());
  input.addEventListener("click", () => listbox.hidden && look());
  input.addEventListener("blur", () => {
    close();
    input.value = keep ? shown(chosen) : input.value;
  });
  input.addEventListener("keydown", (event) => {
    const last = found.length - 1;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (listbox.hidden) look();
      else if (event.key === "ArrowDown") activate(active >= last ? 0 : active + 1);
      else activate(active <= 0 ? last : active - 1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      enter();
    } else if (event.key === "Escape" && !listbox.hidden) {
      event.preventDefault();
      close();
    }
  });
  // Before the field loses focus, which would close the list.
  listbox.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const option = event.target.closest("[role=option]");
    if (option) take(found[[...listbox.children].indexOf(option)]);
  });

  return {
    show(id) {
      if (chosen === id && document.activeElement === input) return; // the user is typing
      chosen = id;
      input.value = keep ? shown(id) : "";
    },
  };
}
