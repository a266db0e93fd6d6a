// What comes with the page: the small model, and, where `locant explore` serves it, what Locant computes when asked.

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

export const EXAMPLE = extra.model || {
  text: "seven hundred forty two",
  hint: "Press Play and watch where the model looks for each word; the order turns round at “und”.",
  about: "A small trained Transformer computes in this page: it reads English numbers from one to 999 and writes them in German.",
};

let model = null; // the small one, made when it is first needed

function small() {
  model = model || new Transformer(json("demo"));
  return model;
}

// Why a sentence cannot be read; empty where it can.
export function problem(sentence) {
  if (!sentence.trim()) return "Type a sentence.";
  if (extra.model) return "";
  const unknown = small().unknown(sentence);
  if (unknown.length) return `The small model knows number words only, such as “three hundred ninety nine”, not “${unknown[0].slice(0, 40)}”.`;
  return small().words(sentence).length > 12 ? "The small model reads at most 12 words." : "";
}

const readings = new Map(); // the last ones by question

export function read(sentence, { positions = true, temperature = 1, seed = 0 } = {}) {
  const question = { sentence, positions, temperature, seed };
  const key = JSON.stringify(question);
  if (!readings.has(key)) {
    if (readings.size > 50) readings.clear();
    const reading = extra.model ? ask("read", question) : small().read(sentence, question);
    reading.catch(() => readings.delete(key)); // it may be asked again
    readings.set(key, reading);
  }
  return readings.get(key);
}
