// What comes with the page: a model, and, where `locant explore` serves it, what Locant computes when asked.

import { Transformer } from "./transformer.js";

const json = (id) => JSON.parse(document.getElementById(id)?.textContent || "{}");

// served: whether a program answers; model: whether a run is shown; schemes: titles of all registered schemes by name.
export const extra = json("extra");

export async function ask(what, question) {
  const answer = await fetch(what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

const data = json("model"); // of the model that the page computes

export const EXAMPLE = extra.model || data.about;

let model = null; // made when it is first needed

function own() {
  model = model || new Transformer(data);
  return model;
}

// Why a sentence cannot be read; empty where it can.
export const problem = (sentence) => (sentence.trim() ? (extra.model ? "" : own().problem(sentence)) : "Type a sentence.");

const readings = new Map(); // the last ones by question

export function read(sentence, { positions = true, temperature = 1, seed = 0 } = {}) {
  const question = { sentence, positions, temperature, seed };
  const key = JSON.stringify(question);
  if (!readings.has(key)) {
    if (readings.size > 50) readings.clear();
    const reading = extra.model ? ask("read", question) : own().read(sentence, question);
    reading.catch(() => readings.delete(key)); // it may be asked again
    readings.set(key, reading);
  }
  return readings.get(key);
}
