// The page to translate in. What translates is a back end: a server (server.js), or the browser itself. openBackEnd({
// loading(done, of, sentence) }) returns
//   languages     as GET /languages lists them: code, name, targets; none where a model does not know its languages
//   chosen        [source, target] to begin with
//   detects       whether it finds the language of a text: "auto" as source
//   limit, pause  most characters of a text; milliseconds without typing after which a text is translated
//   translate(asked, signal, { detected(code), begin(pieces), give(place, text) })
// and, where it can do more,
//   others(asked, signal)           other translations of a text
//   suffixes, translateFile(file, asked, signal)   kinds of files, and the address of a translated one
"use strict";

const at = (id) => document.getElementById(id);
const DRAW = 300; // milliseconds between two changes of the translation: drawing takes from what translates
const DETECT = "auto";

let backEnd = null;
let running = null; // what can stop the translation that is going on
let waiting = 0; // the timer of a text that is being typed
let found = []; // pieces of the translation that are not shown yet
let drawing = 0; // the timer until they are
let detected = null; // code of the language that was found
let done = false; // whether the whole translation of the present text is there
let fileName = "";

class Refused extends Error {}

// ---- what the page shows

function say(sentence) {
  at("said").textContent = sentence;
}

function complain(sentence) {
  at("error").textContent = sentence || "";
  at("error").hidden = !sentence;
}

const languageOf = (code) => backEnd?.languages.find((one) => one.code === code);
const nameOf = (code) => languageOf(code)?.name ?? code;
const asked = () => ({ text: at("text").value, source: at("source").value, target: at("target").value });
const spoken = () => (at("source").value === DETECT ? detected : at("source").value);

function fill(select, choices, chosen) {
  select.replaceChildren(...choices.map(([code, name]) => new Option(name, code)));
  if (choices.some(([code]) => code === chosen)) select.value = chosen;
  select.hidden = select.labels[0].hidden = !choices.length;
}

function showTargets(chosen = at("target").value) {
  const from = languageOf(at("source").value);
  const codes = from ? from.targets : [...new Set(backEnd.languages.flatMap((one) => one.targets))];
  const others = codes.filter((code) => code !== from?.code);
  fill(at("target"), (others.length ? others : codes).map((code) => [code, nameOf(code)]), chosen);
}

function refresh() {
  const { text, source, target } = asked();
  const length = [...text].length;
  const limit = backEnd?.limit ?? Infinity;
  at("count").textContent = length.toLocaleString("en") + (limit < Infinity ? ` of ${limit.toLocaleString("en")}` : "");
  at("count").classList.toggle("beyond", length > limit);
  at("clear").disabled = !text;
  at("translate").disabled = !text.trim() || length > limit;
  at("translate").hidden = Boolean(running);
  at("stop").hidden = !running;
  at("copy").disabled = at("save").disabled = !at("translation").textContent;
  at("more").disabled = !done || !text.trim();
  at("swap").disabled = !spoken() || !languageOf(target)?.targets.includes(spoken());
  at("text").lang = source === DETECT ? "" : source;
  at("translation").lang = target;
  const shown = source === DETECT && detected;
  at("detected").hidden = !shown;
  at("detected").textContent = shown ? `Detected: ${nameOf(detected)}` : "";
}

function hideOthers() {
  at("others").hidden = true;
  at("others").firstElementChild.replaceChildren();
  at("more").setAttribute("aria-expanded", "false");
}

function progress(value, of) {
  at("progress").hidden = false;
  at("progress").max = of;
  at("progress").value = value;
}

function draw() {
  clearTimeout(drawing);
  drawing = 0;
  const places = at("translation").children;
  for (const { place, text } of found) {
    if (!places[place]) at("translation").append(document.createElement("span"));
    Object.assign(places[place], { textContent: text, className: "" });
  }
  found = [];
  const left = at("translation").querySelectorAll(".waiting").length;
  if (running) progress(places.length - left, places.length);
}

function show(pieces) {
  at("translation").replaceChildren(
    ...pieces.map(({ text, translated }) =>
      Object.assign(document.createElement("span"), { textContent: text, className: translated ? "waiting" : "" }),
    ),
  );
}

// ---- translating

function stop() {
  clearTimeout(waiting);
  running?.abort();
  running = null;
  draw();
  at("progress").hidden = true;
  for (const place of at("translation").querySelectorAll(".waiting")) place.textContent = "";
}

// Runs work that can be stopped; what is begun later takes its place.
async function run(work) {
  stop();
  complain("");
  at("download").hidden = true;
  const own = new AbortController();
  running = own;
  at("progress").removeAttribute("value");
  at("progress").hidden = false;
  at("translation").setAttribute("aria-busy", "true");
  refresh();
  try {
    await work(own.signal);
  } catch (error) {
    if (error.name !== "AbortError" && running === own) {
      complain(error instanceof Refused ? error.message : "The translation failed. Try again.");
      say("");
    }
  } finally {
    if (running === own) stop();
    at("translation").setAttribute("aria-busy", String(Boolean(running)));
    refresh();
  }
}

function translate() {
  clearTimeout(waiting);
  if (at("translate").disabled) return;
  if (!backEnd) return say("Translated as soon as everything is loaded ...");
  hideOthers();
  done = false;
  run(async (signal) => {
    say("Translating ...");
    let isFirst = true;
    await backEnd.translate(asked(), signal, {
      detected: (code) => { detected = code; },
      begin: show,
      give(place, text) {
        if (signal.aborted) return;
        found.push({ place, text });
        drawing ||= setTimeout(draw, isFirst ? 0 : DRAW); // the first is seen at once
        isFirst = false;
      },
    });
    if (signal.aborted) return;
    draw();
    done = true;
    say("Translated.");
  });
}

function translateSoon() {
  clearTimeout(waiting);
  done = false;
  hideOthers();
  if (at("text").value.trim()) {
    waiting = setTimeout(translate, backEnd?.pause ?? 0);
  } else {
    stop();
    at("translation").textContent = "";
    detected = null;
    say("");
  }
  refresh();
}

function showOthers() {
  if (!at("others").hidden) return hideOthers();
  const { target } = asked();
  return run(async (signal) => {
    say("Looking for other translations ...");
    const all = await backEnd.others({ ...asked(), source: spoken() || DETECT }, signal);
    const texts = all.filter((text) => text !== at("translation").textContent); // which a narrower search may have found
    at("others").firstElementChild.replaceChildren(
      ...texts.map((text) => Object.assign(document.createElement("li"), { textContent: text, dir: "auto", lang: target })),
    );
    at("others").hidden = !texts.length;
    at("more").setAttribute("aria-expanded", String(texts.length > 0));
    say(texts.length ? "" : "The model found no other translation.");
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
  try {
    await navigator.clipboard.writeText(at("translation").textContent);
    say("Copied.");
  } catch {
    // Without a clipboard (on a page that is not served securely) the text is selected instead.
    getSelection().selectAllChildren(at("translation"));
    say("Press Ctrl C to copy the text that is selected now.");
  }
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([at("translation").textContent], { type: "text/plain" }));
  link.download = `${fileName.replace(/\.[^.]*$/, "") || "translation"}.${at("target").value || "translated"}.txt`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// ---- files

async function take(file) {
  complain("");
  const plain = !file.name.includes(".") || /\.(txt|text)$/i.test(file.name) || !backEnd?.translateFile;
  if (plain) {
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      complain(`${file.name} is not UTF-8 text. Save it as plain text in UTF-8, then open it again.`);
      return;
    }
    if ([...text].length <= (backEnd?.limit ?? Infinity)) {
      at("text").value = text;
      fileName = file.name;
      refresh();
      translate();
      return;
    }
  }
  run(async (signal) => {
    say(`Translating ${file.name} ...`);
    at("download-link").href = await backEnd.translateFile(file, asked(), signal);
    at("download").hidden = false;
    say(`${file.name} is translated.`);
  });
}

// ---- the languages that were chosen last

function keep() {
  try {
    localStorage.setItem(`languages ${location.pathname}`, JSON.stringify([at("source").value, at("target").value]));
  } catch {
    // A browser that keeps nothing.
  }
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(`languages ${location.pathname}`)) || [];
  } catch {
    return [];
  }
}

async function start() {
  refresh();
  let opened;
  try {
    opened = await openBackEnd({
      loading(value, of, sentence) {
        progress(value, of);
        say(sentence);
      },
    });
  } catch (error) {
    at("progress").hidden = true;
    say("");
    complain(error instanceof Refused ? error.message : `This browser cannot translate: ${error.message}`);
    return;
  }
  backEnd = opened;
  at("progress").hidden = true;
  say("");
  const known = kept();
  const [source, target] = backEnd.chosen.map((code, side) => known[side] ?? code);
  const sources = backEnd.languages.filter((one) => one.targets.length).map((one) => [one.code, one.name]);
  fill(at("source"), backEnd.detects && sources.length > 1 ? [[DETECT, "Detect language"], ...sources] : sources, source);
  showTargets(target);
  if (sources.length === 1 && at("target").options.length === 1) {
    const pair = ["source", "target"].map((side) => nameOf(at(side).value));
    document.title = document.querySelector("h1").textContent = pair.join(" to ");
  }
  at("swap").hidden = sources.length < 2;
  at("more").hidden = !backEnd.others;
  at("file").accept = (backEnd.suffixes ?? [".txt", ".md", "text/plain"]).join(",");
  refresh();
  translate();
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
at("text").addEventListener("input", translateSoon);
for (const side of ["source", "target"]) {
  at(side).addEventListener("change", () => {
    if (side === "source") {
      detected = null;
      showTargets();
    }
    keep();
    translateSoon();
  });
}
at("stop").addEventListener("click", () => {
  stop();
  say("Stopped.");
  refresh();
});
for (const [id, act] of Object.entries({ swap, copy, save, more: showOthers })) at(id).addEventListener("click", act);
at("clear").addEventListener("click", () => {
  at("text").value = fileName = "";
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
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
    event.preventDefault();
    at("text").closest(".side").classList.toggle("dropping", kind === "dragenter" || kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
}
start();
