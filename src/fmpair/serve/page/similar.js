// Similar items; each leads to items similar to itself.

import { similar } from "./api.js";
import { make, plain } from "./element.js";
import { inFull, learn, nameOf, wanted } from "./names.js";

const MOST = 6;

/** A section that loads itself. */
export function similarItems(first) {
  const title = make("h3", {});
  const list = make("ol", { class: "similar" });
  const back = make("button", { type: "button", class: "quiet", hidden: true, onclick: () => walk(first, true) }, "Back");
  const section = make("section", { class: "alike" }, make("div", { class: "heading" }, title, back), list);

  async function walk(item, focus) {
    title.replaceChildren("Similar to ", make("strong", {}, nameOf(item)));
    back.hidden = item === first;
    try {
      const found = await similar(item, MOST, wanted());
      found.similar.forEach(({ id, columns }) => learn(id, columns));
      list.replaceChildren(...found.similar.map(entry));
      if (!found.similar.length) list.replaceChildren(make("li", { class: "muted" }, "None"));
      if (focus) list.querySelector("button")?.focus({ preventScroll: true });
    } catch (problem) {
      list.replaceChildren(make("li", { class: "muted" }, problem.message));
    }
  }

  function entry({ id, similarity }) {
    const share = make("span", { class: "share", "aria-hidden": "true" });
    share.style.width = `${100 * Math.max(0, Math.min(1, similarity))}%`;
    return make("li", {},
      make("button", { type: "button", class: "alike-item", onclick: () => walk(id, true) },
        make("span", { class: "name", title: inFull(id) }, nameOf(id)), make("span", { class: "value" }, plain(similarity, 2)), share));
  }

  walk(first, false);
  return section;
}
