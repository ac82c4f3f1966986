// Titles and pictures of items, by the columns that the model card names.

import { make, shown } from "./element.js";

const known = new Map(); // id as JSON: its columns
let columns = { title: null, images: null };

/** title, images: names of columns, or null. */
export const useColumns = ({ title, images }) => (columns = { title: title ?? null, images: images ?? null });

/** What to ask for with every item. */
export const wanted = () => Object.values(columns).filter((name) => name !== null);

export function learn(id, told) {
  if (told) known.set(JSON.stringify(id), told);
}

const value = (id, column) => (column === null ? undefined : known.get(JSON.stringify(id))?.[column]);

/** The title of an item, else its id. */
export const nameOf = (id) => shown(value(id, columns.title) ?? id);

/** Whether items have titles and this one's is not known yet. */
export const unnamed = (id) => columns.title !== null && value(id, columns.title) === undefined;

/** The id behind a title, for tooltips. */
export const inFull = (id) => (nameOf(id) === shown(id) ? shown(id) : `${nameOf(id)} (${shown(id)})`);

/** Titles of suggestions. */
export function learnTitles(ids, titles) {
  ids.forEach((id, number) => {
    const old = known.get(JSON.stringify(id)) ?? {};
    if (columns.title !== null && titles?.[number]) learn(id, { ...old, [columns.title]: titles[number] });
  });
}

/** A picture, if the service was started with a column of them. */
export function picture(id) {
  const address = value(id, columns.images);
  if (typeof address !== "string" || !/^(https?:\/)?\//.test(address)) return null;
  return make("img", { class: "picture", src: address, alt: "", loading: "lazy", referrerPolicy: "no-referrer" });
}
