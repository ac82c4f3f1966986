// Elements from plain text: no id is ever parsed as HTML.

/** Create an element with properties (also `class` and `aria-*`) and children. */
export function make(tag, properties = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name === "class" ? "class" : name, value === true ? "" : value);
  }
  element.append(...inside.filter((one) => one !== null && one !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** The text of an id or value of any type. */
export const shown = (value) => (value === null || value === undefined ? "" : String(value));

/** A number with its sign: +0.125, −0.125. */
export function signed(value, digits = 3) {
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return (value < 0 ? "−" : "+") + text;
}

/** A score as text. */
export const plain = (value, digits = 3) => value.toFixed(digits).replace("-", "−");
