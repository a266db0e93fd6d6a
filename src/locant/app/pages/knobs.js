// Knobs of a page, and its state in the address: #page?name=value. Every knob is an ordinary field with a label.

import { element } from "./draw.js";

let names = 0;

// value is what is set, change(value) is called with what somebody sets.
export function slider(label, { least, most, step = 1, doubling = false }, value, change) {
  const id = `knob-${names += 1}`;
  const [to, from] = doubling ? [Math.log2, (power) => 2 ** power] : [Number, Number];
  const shown = element("output", { for: id }, value.toLocaleString("en"));
  const field = element("input", { id, type: "range", min: to(least), max: to(most), step: doubling ? 1 : step, value: to(value) });
  field.addEventListener("input", () => {
    shown.textContent = from(Number(field.value)).toLocaleString("en");
    change(from(Number(field.value)));
  });
  return element("p", { class: "knob" }, element("label", { for: id }, label), field, shown);
}

// choices: {value: title}, or {group: {value: title}} for groups.
export function select(label, choices, value, change) {
  const id = `knob-${names += 1}`;
  const option = ([key, title]) => (typeof title === "object"
    ? element("optgroup", { label: key }, Object.entries(title).map(option))
    : element("option", { value: key, selected: key === String(value) }, title));
  const field = element("select", { id, onchange: () => change(field.value) }, Object.entries(choices).map(option));
  return element("p", { class: "knob" }, element("label", { for: id }, label), field);
}

export function check(label, value, change) {
  const field = element("input", { type: "checkbox", checked: value, onchange: () => change(field.checked) });
  return element("p", { class: "knob" }, element("label", {}, field, label));
}

export function sentence(label, value, change) {
  const id = `knob-${names += 1}`;
  const field = element("input", { id, type: "text", value, maxlength: 400, autocomplete: "off", spellcheck: "false" });
  let timer = 0;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => change(field.value), 200); // a model need not read every letter
  });
  return element("p", { class: "knob wide" }, element("label", { for: id }, label), field);
}

export const button = (label, act) => element("button", { type: "button", onclick: act }, label);

// A button that turns a knob by itself: step() every `pause` milliseconds. Stops when its page is left.
export function play(step, pause, started) {
  let timer = 0;
  const toggle = button("", () => (timer ? stop() : start()));
  const say = () => { toggle.textContent = timer ? "\u275a\u275a Pause" : "\u25b6 Play"; };
  const stop = () => { clearInterval(timer); timer = 0; say(); };
  const start = () => { timer = setInterval(() => (toggle.isConnected ? step() : stop()), pause); say(); };
  say();
  if (started && !matchMedia("(prefers-reduced-motion: reduce)").matches) start();
  return toggle;
}

// What the address says of a page's knobs, over their defaults; what cannot be is the default.
export function stateOf(defaults) {
  const said = new URLSearchParams(location.hash.split("?")[1] || "");
  const state = {};
  for (const [name, value] of Object.entries(defaults)) {
    const found = said.get(name);
    if (found === null) state[name] = value;
    else if (typeof value === "number") state[name] = Number.isFinite(Number(found)) && found !== "" ? Number(found) : value;
    else state[name] = typeof value === "boolean" ? found === "true" : found;
  }
  return state;
}

export function keepState(page, defaults, state) {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== defaults[name]) said.set(name, value);
  history.replaceState(null, "", `#${page}${said.size ? `?${said}` : ""}`);
}

export const within = (value, least, most) => Math.min(most, Math.max(least, value));
