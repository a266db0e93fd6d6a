// Runs the program of an exported page under Node: reads a JSON command a line, writes a JSON answer a line.
"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");
const vm = require("vm");

const assets = path.join(__dirname, "../../src/locant/app/web");
const names = ["tokenizer.js", "sentences.js", "search.js", "engine.js", "worker.js"];
globalThis.postMessage = () => {};
vm.runInThisContext(names.map((name) => fs.readFileSync(path.join(assets, name), "utf8")).join("\n"));
const { Tokenizer, Engine, Translator, fromBase64, cutText, splitToFit } = vm.runInThisContext(
  "({ Tokenizer, Engine, Translator, fromBase64, cutText, splitToFit })",
);

let tokenizer;
let translator;

// The block of data of a page.
function block(page, id) {
  return new RegExp(`<script type="[^"]*" id="${id}">([^]*?)</script>`).exec(page)[1];
}

const commands = {
  tokenizer: ([file, lowercase]) => {
    tokenizer = new Tokenizer(new Uint8Array(fs.readFileSync(file)), lowercase);
  },
  encode: (texts) => texts.map((text) => tokenizer.encode(text)),
  decode: (lists) => lists.map((ids) => tokenizer.decode(ids)),
  cut: ([text, language]) => cutText(text, language),
  split: ([text, most]) => splitToFit(text, (part) => part.length <= most),
  // What the chosen one of some modules, in base64, says of its products.
  exact: async (modules) => (await Engine.functions(modules.map(fromBase64))).locant_exact(),
  load: async (folder) => {
    const page = fs.readFileSync(path.join(folder, "index.html"), "utf8");
    const { model, files } = JSON.parse(block(page, "about"));
    const engine = await Engine.open(block(page, "engines").split("\n").map(fromBase64), model);
    const tokenizers = {};
    for (const file of files) {
      const [, text] = /^locantPart\("(.*)"\);\n$/.exec(fs.readFileSync(path.join(folder, file), "utf8"));
      for (const [name, bytes] of engine.load(fromBase64(text))) {
        tokenizers[name.slice("tokenizer.".length)] = new Tokenizer(bytes, model.lowercase);
      }
    }
    engine.begin();
    tokenizers.target ??= tokenizers.source;
    translator = new Translator(engine, tokenizers, model);
  },
  // Translations, and the seconds of processor time that they took.
  translate: ({ sentences, source, target }) => {
    const begun = process.cpuUsage();
    const found = [];
    translator.begin({ sentences, source, target }, (index, text) => {
      found[index] = text;
    });
    while (translator.step());
    const { user, system } = process.cpuUsage(begun);
    return { translations: found, seconds: (user + system) / 1e6 };
  },
};

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [[command, given]] = Object.entries(JSON.parse(line));
    let answer;
    try {
      answer = { answer: (await commands[command](given)) ?? null };
    } catch (error) {
      answer = { error: error.stack };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
})();
