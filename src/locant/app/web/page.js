// The page: loads the model, hands texts to the thread that translates (worker.js), and shows what it says.
"use strict";

const at = (id) => document.getElementById(id);
const about = JSON.parse(at("about").textContent);
const SOON = 400; // milliseconds without typing, after which a text is translated
const DRAW = 300; // milliseconds between two changes of the translation: drawing takes from the thread that translates

let ready = false;
let number = 0; // of the last translation that was asked for
let running = false;
let waiting = 0; // the timer of a text that is being typed
let left = 0; // sentences that are not translated yet
let found = []; // those that are, and not shown yet
let drawing = 0; // the timer until the next are shown
let fileName = "";

// ---- what the page shows

function say(sentence) {
  at("said").textContent = sentence;
}

function complain(sentence) {
  at("error").textContent = sentence || "";
  at("error").hidden = !sentence;
}

function refresh() {
  const text = at("text").value;
  at("count").textContent = text ? [...text].length.toLocaleString("en") : "";
  at("clear").disabled = !text;
  at("translate").disabled = !text.trim();
  at("translate").hidden = running;
  at("stop").hidden = !running;
  at("copy").disabled = at("save").disabled = running || !at("translation").textContent;
  at("progress").hidden = ready && !running;
  at("translation").setAttribute("aria-busy", String(running));
  at("text").lang = at("source").value || about.source_language || "";
  at("translation").lang = at("target").value || about.target_language || "";
}

function nameOf(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code.replace("_", "-"));
  } catch {
    return code;
  }
}

function showLanguages() {
  const pair = [about.source_language, about.target_language];
  if (!about.model.languages && pair.every(Boolean)) {
    document.title = document.querySelector("h1").textContent = pair.map(nameOf).join(" to ");
  }
  for (const side of ["source", "target"]) {
    const { languages } = about.model;
    const code = about[`${side}_language`];
    const choices = languages && [...languages.before, ...languages.after].includes(side);
    at(`${side}-name`).textContent = choices || !code ? "" : nameOf(code);
    at(side).hidden = !choices;
    if (!choices) continue;
    const codes = Object.keys(languages.ids).sort((a, b) => nameOf(a).localeCompare(nameOf(b), "en"));
    at(side).replaceChildren(...codes.map((one) => new Option(nameOf(one), one)));
    at(side).value = kept(side) ?? (codes.includes(code) ? code : codes[side === "source" ? 0 : codes.length - 1]);
    at(side).addEventListener("change", () => {
      keep(side, at(side).value);
      translateSoon();
    });
  }
}

// ---- the languages that were chosen last

function keep(name, value) {
  try {
    localStorage.setItem(`locant ${about.version} ${name}`, value);
  } catch {
    // A browser that keeps nothing.
  }
}

function kept(name) {
  try {
    return localStorage.getItem(`locant ${about.version} ${name}`);
  } catch {
    return null;
  }
}

// ---- the thread that translates

// A worker from the page's own text: a page that was opened as a file has no other.
const worker = new Worker(URL.createObjectURL(new Blob([at("worker").textContent], { type: "text/javascript" })));

function draw() {
  clearTimeout(drawing);
  drawing = 0;
  const places = at("translation").children;
  for (const { place, text } of found) Object.assign(places[place], { textContent: text, className: "" });
  found = [];
  at("progress").value = at("progress").max - left;
}

worker.onmessage = ({ data }) => {
  if (data.kind === "ready") {
    ready = true;
    say("");
    refresh();
    if (at("text").value.trim()) translate();
    return;
  }
  if (data.kind === "error" && data.number === undefined) {
    complain(data.sentence);
    say("");
    at("progress").hidden = true;
    return;
  }
  if (data.number !== number) return; // of a text that is no longer there
  if (data.kind === "pieces") {
    left = data.pieces.filter(({ translated }) => translated).length;
    found = [];
    at("progress").max = Math.max(1, left);
    at("progress").value = 0;
    at("translation").replaceChildren(
      ...data.pieces.map(({ text, translated }) =>
        Object.assign(document.createElement("span"), { textContent: text, className: translated ? "waiting" : "" }),
      ),
    );
  } else if (data.kind === "sentence") {
    found.push(data);
    drawing ||= setTimeout(draw, left === at("progress").max ? 0 : DRAW); // the first is seen at once
    left--;
  } else if (data.kind === "end") {
    draw();
    running = false;
    say("Translated.");
    refresh();
  } else if (data.kind === "error") {
    stop();
    complain(data.sentence);
  }
};

worker.onerror = (event) => {
  event.preventDefault();
  complain(`This browser cannot translate: ${event.message || "it does not run the page's thread"}.`);
};

// Called by the files of the model, which are scripts because a page that was opened as a file can read nothing else.
globalThis.locantPart = (text) => worker.postMessage({ kind: "part", text });

function loadPart(file) {
  return new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src: file, onload: resolve, onerror: reject });
    document.head.append(script);
  });
}

async function load() {
  worker.postMessage({ kind: "model", about: about.model, engines: at("engines").textContent.split("\n") });
  // Says how many parts are there: a bar that moves by itself is drawn all the while, on the processor that loads.
  at("progress").max = about.files.length;
  at("progress").value = 0;
  say(`Loading the model (${about.size}) ...`);
  for (const file of about.files) {
    try {
      await loadPart(file);
      at("progress").value++;
    } catch {
      complain(`${file} cannot be read. It must be beside this page: copy the whole folder.`);
      say("");
      at("progress").hidden = true;
      return;
    }
  }
}

// ---- translating

function translate() {
  clearTimeout(waiting);
  complain("");
  if (!at("text").value.trim()) return;
  if (!ready) return say(`Translated as soon as the model is loaded (${about.size}) ...`);
  running = true;
  number++;
  say("Translating ...");
  const [source, target] = ["source", "target"].map((side) => at(side).value || about[`${side}_language`]);
  worker.postMessage({ kind: "translate", number, text: at("text").value, source, target });
  refresh();
}

function stop() {
  clearTimeout(waiting);
  number++;
  worker.postMessage({ kind: "stop", number });
  draw();
  if (running) say("Stopped.");
  running = false;
  for (const place of at("translation").querySelectorAll(".waiting")) place.textContent = "";
  refresh();
}

function translateSoon() {
  clearTimeout(waiting);
  if (at("text").value.trim()) {
    waiting = setTimeout(translate, SOON);
  } else {
    stop();
    at("translation").textContent = "";
    say("");
  }
  refresh();
}

async function copy() {
  try {
    await navigator.clipboard.writeText(at("translation").textContent);
    say("Copied.");
  } catch {
    // Without a clipboard the text is selected instead.
    getSelection().selectAllChildren(at("translation"));
    say("Press Ctrl C to copy the text that is selected now.");
  }
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([at("translation").textContent], { type: "text/plain" }));
  link.download = `${fileName.replace(/\.[^.]*$/, "") || "translation"}.${at("translation").lang || "translated"}.txt`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function take(file) {
  complain("");
  try {
    at("text").value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return complain(`${file.name} is not UTF-8 text. Save it as plain text in UTF-8, then open it again.`);
  }
  fileName = file.name;
  refresh();
  translate();
}

// ---- beginning

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
at("text").addEventListener("input", translateSoon);
at("stop").addEventListener("click", stop);
at("copy").addEventListener("click", copy);
at("save").addEventListener("click", save);
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
    stop();
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
if (/^https?:$/.test(location.protocol) && navigator.serviceWorker) {
  navigator.serviceWorker.register("sw.js").catch(() => {}); // a browser that keeps nothing still translates
}
showLanguages();
refresh();
load();
