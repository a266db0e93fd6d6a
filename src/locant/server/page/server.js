// The back end of a server: the page asks it alone. openBackEnd() says what page.js may do with it.
"use strict";

const ALTERNATIVES = 3;

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
    throw new Refused("The server does not answer. Check whether it runs, then try again.");
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
      const line = (name) => block.split(/\r?\n/).find((one) => one.startsWith(`${name}:`))?.slice(name.length + 1).trim();
      if (line("data")) yield [line("event"), JSON.parse(line("data"))];
    }
  }
}

async function openBackEnd() {
  const [languages, settings] = await Promise.all(
    ["languages", "frontend/settings"].map(async (path) => (await ask(path)).json()),
  );
  const { source, target } = settings.language;
  at("key-row").hidden = !settings.keyRequired;
  return {
    languages,
    detects: true,
    chosen: [source.code, target.code],
    limit: settings.charLimit > 0 ? settings.charLimit : Infinity,
    pause: settings.frontendTimeout,
    suffixes: settings.supportedFilesFormat,

    async translate({ text, source: from, target: to }, signal, { detected, begin, give }) {
      let place = 0;
      let ended = false;
      const answer = await ask("translate/stream", { q: text, source: from, target: to }, signal);
      for await (const [name, data] of events(answer)) {
        if (name === "start") {
          if (data.detectedLanguage) detected(data.detectedLanguage.language);
          begin(Array(data.sentences).fill({ text: "", translated: true }));
        }
        if (name === "piece") give(place++, data.text);
        if (name === "error") throw new Refused(data.error);
        ended = name === "end";
      }
      if (!ended) throw new Refused("The translation was broken off. Try again.");
    },

    async others({ text, source: from, target: to }, signal) {
      const answer = await ask("translate", { q: text, source: from, target: to, alternatives: ALTERNATIVES }, signal);
      return (await answer.json()).alternatives ?? [];
    },

    // Returns the address of a translated file.
    async translateFile(file, { source: from, target: to }, signal) {
      const form = new FormData();
      for (const [name, value] of Object.entries({ file, source: from, target: to })) form.set(name, value);
      const { translatedFileUrl } = await (await ask("translate_file", form, signal)).json();
      return new URL(translatedFileUrl, location.href).pathname.replace(/^\//, "");
    },
  };
}
