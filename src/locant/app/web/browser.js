// The back end of an exported model: a thread of the page itself (worker.js) translates. For page.js.
"use strict";

const about = JSON.parse(document.getElementById("about").textContent);
const PAUSE = 400; // milliseconds without typing, after which a text is translated

function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code.replace("_", "-"));
  } catch {
    return code;
  }
}

// The languages that may be chosen: of a side that the model is told all that it knows, of another that of its text.
function languagesOf({ source_language: source, target_language: target, model: { languages } }) {
  if (!languages && !(source && target)) return [];
  const known = Object.keys(languages?.ids ?? {});
  const told = languages ? [...languages.before, ...languages.after] : [];
  const sources = told.includes("source") ? known : [source ?? ""];
  const targets = told.includes("target") ? known : [target];
  return [...new Set([...sources, ...targets])]
    .map((code) => ({ code, name: code ? languageName(code) : "any language", targets: sources.includes(code) ? targets : [] }))
    .sort((a, b) => a.name.localeCompare(b.name, "en"));
}

function loadPart(file) {
  return new Promise((resolve, reject) => {
    document.head.append(Object.assign(document.createElement("script"), { src: file, onload: resolve, onerror: reject }));
  });
}

async function openBackEnd({ loading }) {
  // A worker from the page's own text: a page that was opened as a file has no other.
  const worker = new Worker(URL.createObjectURL(new Blob([at("worker").textContent], { type: "text/javascript" })));
  let hear = () => {};
  let fail = () => {};
  let number = 0; // of the last translation that was asked for
  const ready = new Promise((resolve, reject) => {
    fail = reject;
    worker.onmessage = ({ data }) => {
      if (data.kind === "ready") resolve();
      else if (data.kind === "error" && data.number === undefined) fail(new Refused(data.sentence));
      else if (data.number === number) hear(data); // others are of a text that is no longer there
    };
    worker.onerror = (event) => {
      event.preventDefault();
      fail(new Refused(`This browser cannot translate: ${event.message || "it does not run the page's thread"}.`));
    };
  });
  // Called by the files of the model, which are scripts because a page that was opened as a file can read nothing else.
  globalThis.locantPart = (text) => worker.postMessage({ kind: "part", text });
  worker.postMessage({ kind: "model", about: about.model, engines: at("engines").textContent.split("\n") });
  const load = async () => {
    for (const [index, file] of about.files.entries()) {
      // Says how many parts are there: a bar that moves by itself is drawn all the while, on the processor that loads.
      loading(index, about.files.length, `Loading the model (${about.size}) ...`);
      await loadPart(file).catch(() => {
        throw new Refused(`${file} cannot be read. It must be beside this page: copy the whole folder.`);
      });
    }
    await ready;
  };
  await Promise.race([load(), ready]);
  if (/^https?:$/.test(location.protocol) && navigator.serviceWorker) {
    navigator.serviceWorker.register("sw.js").catch(() => {}); // a browser that keeps nothing still translates
  }
  return {
    languages: languagesOf(about),
    chosen: [about.source_language, about.target_language],
    detects: false,
    limit: Infinity,
    pause: PAUSE,

    translate({ text, source, target }, signal, { begin, give }) {
      return new Promise((resolve, reject) => {
        number++;
        signal.addEventListener("abort", () => {
          worker.postMessage({ kind: "stop", number: -1 });
          reject(signal.reason);
        });
        fail = reject;
        hear = (data) => {
          if (data.kind === "pieces") begin(data.pieces);
          else if (data.kind === "sentence") give(data.place, data.text);
          else if (data.kind === "end") resolve();
          else reject(new Refused(data.sentence));
        };
        worker.postMessage({
          kind: "translate", number, text, source: source || about.source_language, target: target || about.target_language,
        });
      });
    },
  };
}
