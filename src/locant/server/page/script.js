// The page to translate in. It asks the server alone, and keeps nothing but the chosen languages.
"use strict";

const at = (id) => document.getElementById(id);
const ALTERNATIVES = 3;

let languages = []; // as GET /languages lists them: code, name, targets
let settings = {};
let running = null; // what can stop the request that is being answered
let waiting = 0; // the timer of a text that is being typed
let detected = null; // code of the language that the server found
let done = false; // whether the whole translation of the present text is there

class Refused extends Error {}

// ---- asking the server

async function ask(path, body, signal) {
  const key = at("key").value.trim();
  const headers = {};
  if (!(body instanceof FormData) && body) headers["Content-Type"] = "application/json";
  if (key && body instanceof FormData) body.set("api_key", key);
  const content = body instanceof FormData ? body : body && JSON.stringify(key ? { ...body, api_key: key } : body);
  let answer;
  try {
    answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: content, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Look whether it runs, then try again.");
  }
  if (answer.ok) return answer;
  let sentence = "";
  try {
    sentence = (await answer.json()).error;
  } catch {
    // Whatever stands between the page and the server answered in its own words.
  }
  throw new Refused(sentence || `The server refused this with status ${answer.status}.`);
}

// Yields [event, data] of a stream of server-sent events.
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done: ended } = await reader.read();
    if (ended) return;
    rest += value;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      let name = "message";
      const data = [];
      for (const line of block.split(/\r?\n/)) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length) yield [name, JSON.parse(data.join("\n"))];
    }
  }
}

// ---- what the page shows

function say(sentence) {
  at("said").textContent = sentence;
}

function complain(sentence) {
  at("error").textContent = sentence || "";
  at("error").hidden = !sentence;
}

function nameOf(code) {
  return languages.find((one) => one.code === code)?.name ?? code;
}

function spoken() {
  return at("source").value === "auto" ? detected : at("source").value;
}

function fill(select, choices, chosen) {
  select.replaceChildren(...choices.map(([code, name]) => new Option(name, code)));
  if (choices.some(([code]) => code === chosen)) select.value = chosen;
}

function showTargets(chosen = at("target").value) {
  const from = languages.find((one) => one.code === at("source").value);
  const codes = from ? from.targets : [...new Set(languages.flatMap((one) => one.targets))];
  const others = codes.filter((code) => code !== from?.code);
  fill(at("target"), (others.length ? others : codes).map((code) => [code, nameOf(code)]), chosen);
}

function refresh() {
  const text = at("text").value;
  const most = settings.charLimit > 0 ? settings.charLimit : Infinity;
  const length = [...text].length;
  at("count").textContent = most < Infinity ? `${length.toLocaleString("en")} of ${most.toLocaleString("en")}` : length.toLocaleString("en");
  at("count").classList.toggle("beyond", length > most);
  at("clear").disabled = !text;
  at("translate").disabled = !text.trim() || length > most || !languages.length;
  at("translate").hidden = Boolean(running);
  at("stop").hidden = !running;
  at("copy").disabled = !at("translation").textContent;
  at("more").disabled = !done || !text.trim();
  const back = languages.find((one) => one.code === at("target").value);
  at("swap").disabled = !spoken() || !back?.targets.includes(spoken());
  at("text").lang = at("source").value === "auto" ? "" : at("source").value;
  at("translation").lang = at("target").value;
  const shown = at("source").value === "auto" && detected;
  at("detected").hidden = !shown;
  at("detected").textContent = shown ? `Detected: ${nameOf(detected)}` : "";
}

function hideOthers() {
  at("others").hidden = true;
  at("others").firstElementChild.replaceChildren();
  at("more").setAttribute("aria-expanded", "false");
}

function busy(yes) {
  at("translation").setAttribute("aria-busy", String(yes));
  at("progress").hidden = !yes;
}

function stop() {
  clearTimeout(waiting);
  running?.abort();
  running = null;
  busy(false);
}

// ---- translating

// Runs work that can be stopped; what is begun later takes its place.
async function run(work) {
  stop();
  complain("");
  at("download").hidden = true;
  const own = new AbortController();
  running = own;
  busy(true);
  refresh();
  try {
    await work(own.signal);
  } catch (error) {
    if (error.name !== "AbortError" && running === own) {
      complain(error instanceof Refused ? error.message : "The answer of the server could not be read. Try again.");
      say("");
    }
  } finally {
    if (running === own) {
      running = null;
      busy(false);
      refresh();
    }
  }
}

function translate() {
  if (at("translate").disabled) return;
  const asked = { q: at("text").value, source: at("source").value, target: at("target").value };
  hideOthers();
  done = false;
  run(async (signal) => {
    say("Translating ...");
    const answer = await ask("translate/stream", asked, signal);
    at("translation").textContent = "";
    for await (const [name, data] of events(answer)) {
      if (name === "start") detected = data.detectedLanguage?.language ?? detected;
      if (name === "piece") at("translation").append(data.text);
      if (name === "error") throw new Refused(data.error);
      done = name === "end";
      refresh();
    }
    if (!done) throw new Refused("The translation was broken off. Try again.");
    say("Translated.");
  });
}

function translateSoon() {
  clearTimeout(waiting);
  done = false;
  hideOthers();
  if (!at("text").value.trim()) {
    stop();
    at("translation").textContent = "";
    detected = null;
    say("");
  } else {
    // Milliseconds without typing, after which a text is translated.
    waiting = setTimeout(translate, settings.frontendTimeout);
  }
  refresh();
}

function showOthers() {
  if (!at("others").hidden) return hideOthers();
  const asked = { q: at("text").value, source: spoken() || "auto", target: at("target").value, alternatives: ALTERNATIVES };
  return run(async (signal) => {
    say("Looking for other translations ...");
    const found = (await (await ask("translate", asked, signal)).json()).alternatives || [];
    at("others").firstElementChild.replaceChildren(
      ...found.map((text) => Object.assign(document.createElement("li"), { textContent: text, dir: "auto", lang: asked.target })),
    );
    at("others").hidden = !found.length;
    at("more").setAttribute("aria-expanded", String(found.length > 0));
    say(found.length ? "" : "The model found no other translation.");
  });
}

function swap() {
  const from = spoken();
  const text = at("translation").textContent;
  at("source").value = at("target").value;
  detected = null;
  showTargets(from);
  if (text) at("text").value = text;
  at("translation").textContent = "";
  keep();
  refresh();
  translate();
}

async function copy() {
  const text = at("translation").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a clipboard (on a page that is not served securely) the text is selected instead.
    const range = document.createRange();
    range.selectNodeContents(at("translation"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    say("Press Ctrl C to copy the text that is selected now.");
    return;
  }
  say("Copied.");
}

// ---- files

async function take(file) {
  complain("");
  const plain = !file.name.includes(".") || /\.(txt|text)$/i.test(file.name);
  if (plain) {
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      complain(`${file.name} is not UTF-8 text. Save it as UTF-8, then open it again.`);
      return;
    }
    if (!(settings.charLimit > 0) || [...text].length <= settings.charLimit) {
      at("text").value = text;
      refresh();
      translate();
      return;
    }
  }
  if (!settings.filesTranslation) {
    complain(plain ? `${file.name} is too long for this server.` : `${file.name} is no plain text, and this server translates no other files.`);
    return;
  }
  const form = new FormData();
  form.set("file", file);
  form.set("source", at("source").value);
  form.set("target", at("target").value);
  run(async (signal) => {
    say(`Translating ${file.name} ...`);
    const { translatedFileUrl } = await (await ask("translate_file", form, signal)).json();
    at("download-link").href = new URL(translatedFileUrl, location.href).pathname.replace(/^\//, "");
    at("download").hidden = false;
    say(`${file.name} is translated.`);
  });
}

// ---- the languages that were chosen last

function keep() {
  try {
    localStorage.setItem("languages", JSON.stringify([at("source").value, at("target").value]));
  } catch {
    // A browser that keeps nothing.
  }
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem("languages")) || [];
  } catch {
    return [];
  }
}

async function start() {
  try {
    [languages, settings] = await Promise.all(
      ["languages", "frontend/settings"].map(async (path) => (await ask(path)).json()),
    );
  } catch (error) {
    complain(error.message);
    return;
  }
  const [source, target] = kept();
  const sources = languages.filter((one) => one.targets.length).map((one) => [one.code, one.name]);
  fill(at("source"), sources.length > 1 ? [["auto", "Detect language"], ...sources] : sources, source || settings.language?.source?.code);
  showTargets(target || settings.language?.target?.code);
  at("key-row").hidden = !settings.keyRequired;
  if (settings.supportedFilesFormat?.length) at("file").accept = settings.supportedFilesFormat.join(",");
  refresh();
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
at("text").addEventListener("input", translateSoon);
at("source").addEventListener("change", () => {
  detected = null;
  showTargets();
  keep();
  translateSoon();
});
at("target").addEventListener("change", () => {
  keep();
  translateSoon();
});
at("swap").addEventListener("click", swap);
at("stop").addEventListener("click", () => {
  stop();
  say("Stopped.");
  refresh();
});
at("copy").addEventListener("click", copy);
at("more").addEventListener("click", showOthers);
at("clear").addEventListener("click", () => {
  at("text").value = "";
  translateSoon();
  at("text").focus();
});
at("file").addEventListener("change", () => {
  const [file] = at("file").files;
  if (file) take(file);
  at("file").value = "";
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    translate();
  } else if (event.key === "Escape" && running) {
    at("stop").click();
  }
});
const text = at("text").closest(".side");
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
    event.preventDefault();
    text.classList.toggle("dropping", kind === "dragenter" || kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
}
start();
