// One control per context column, with the values that the model knows.

import { make, shown } from "./element.js";

const FEW = 3; // columns shown in one column
const NOTHING = "any";

/** The chosen value as the service expects it, by the kind of the column. */
function sent(kind, value) {
  if (kind === "multi") return [value];
  return kind === "weighted" ? { [shown(value)]: 1 } : value;
}

/** The chosen value in what was sent. */
function chosen(value) {
  if (Array.isArray(value)) return value[0];
  return value !== null && typeof value === "object" ? Object.keys(value)[0] : value;
}

/** A menu of all values. */
function selection({ kind, values }, id, change) {
  const options = values.map((value, number) => make("option", { value: String(number) }, shown(value)));
  const select = make("select", { id }, make("option", { value: "" }, NOTHING), ...options);
  select.addEventListener("change", () => change(select.value === "" ? null : sent(kind, values[Number(select.value)])));
  const show = (value) => {
    const number = values.findIndex((one) => one === chosen(value));
    select.value = number < 0 ? "" : String(number);
  };
  return { elements: [select], show };
}

/** A text field that suggests some of the values. */
function suggestion({ kind, values }, id, change) {
  const input = make("input", { id, type: "text", placeholder: NOTHING, spellcheck: false });
  input.setAttribute("list", `${id}-values`);
  const known = make("datalist", { id: `${id}-values` }, ...values.map((value) => make("option", { value: shown(value) })));
  input.addEventListener("change", () => {
    const text = input.value.trim();
    change(text === "" ? null : sent(kind, values.find((value) => shown(value) === text) ?? text));
  });
  return { elements: [input, known], show: (value) => (input.value = shown(chosen(value))) };
}

/** A number or a time. */
function entry(type, read, id, change) {
  const input = make("input", { id, type, step: "any", placeholder: NOTHING });
  input.addEventListener("change", () => change(input.value === "" ? null : read(input.value)));
  return { elements: [input], show: (value) => (input.value = shown(value)) };
}

function control(field, id, change) {
  const { kind, values, count } = field;
  if (kind === "boolean") return selection({ kind, values: [true, false] }, id, change);
  if (kind === "time") return entry("datetime-local", String, id, change);
  if (!values.length) return entry("number", Number, id, change);
  return (values.length === count ? selection : suggestion)(field, id, change);
}

/** change(field, value or null) is called on changes. Returns show(name => value). */
export function contextFields(place, fields, change) {
  place.classList.toggle("many", fields.length > FEW);
  const shows = fields.map((field, number) => {
    const id = `context-${number}`;
    const { elements, show } = control(field, id, (value) => change(field, value));
    const wide = field.kind === "time" ? "wide" : "";
    place.append(make("div", { class: `field ${wide}` }, make("label", { htmlFor: id }, field.name), ...elements));
    return [field.name, show];
  });
  return (valueOf) => shows.forEach(([name, show]) => show(valueOf(name)));
}
