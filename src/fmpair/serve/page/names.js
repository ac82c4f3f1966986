// Titles and pictures of items, by the columns that the model card names.

import { recommend } from "./api.js";
import { make, shown } from "./element.js";

const known = new Map(); // id as text: its columns
const asked = new Set(); // ids as text whose columns were asked for
let columns = { title: null, images: null };

/** title, images: names of columns, or null. */
export const useColumns = ({ title, images }) => (columns = { title: title ?? null, images: images ?? null });

/** What to ask for with every item. */
export const wanted = () => Object.values(columns).filter((name) => name !== null);

export function learn(id, told) {
  if (told) known.set(shown(id), told);
}

const value = (id, column) => (column === null ? undefined : known.get(shown(id))?.[column]);

/** The title of an item, else its id. */
export const nameOf = (id) => shown(value(id, columns.title) ?? id);

/** Whether items have titles and this one's is not known yet. */
export const unnamed = (id) => columns.title !== null && value(id, columns.title) === undefined;

/** The id behind a title, for tooltips. */
export const inFull = (id) => (nameOf(id) === shown(id) ? shown(id) : `${nameOf(id)} (${shown(id)})`);

/** Titles of suggestions. */
export function learnTitles(ids, titles) {
  ids.forEach((id, number) => {
    const old = known.get(shown(id)) ?? {};
    if (columns.title !== null && titles?.[number]) learn(id, { ...old, [columns.title]: titles[number] });
  });
}

/** Ask once for the titles of items that no list had; return whether any was learned. */
export async function learnOf(ids) {
  const missing = ids.filter((id) => unnamed(id) && !asked.has(shown(id)));
  missing.forEach((id) => asked.add(shown(id)));
  if (!missing.length) return false;
  const found = await recommend({ candidates: missing, n: missing.length, exclude_seen: false, show: wanted() }).catch(() => ({ items: [] }));
  found.items.forEach((item) => learn(item.item, item.columns));
  return found.items.length > 0;
}

/** A picture, if the service was started with a column of them. */
export function picture(id) {
  const address = value(id, columns.images);
  if (typeof address !== "string" || !/^(https?:\/)?\//.test(address)) return null;
  return make("img", { class: "picture", src: address, alt: "", loading: "lazy", referrerPolicy: "no-referrer" });
}
