// Texts cut into sentences, and put together again from their translations: as server/segmentation.py does it, by the
// browser's own rules (Unicode Standard Annex 29). Line breaks and the white space around sentences stay as they are.

// Returns pieces of a text: { text, translated }, where white space is not translated. Joined, they are the text.
function cutText(text, language) {
  const split = sentenceSplitter(language);
  const pieces = [];
  const give = (part, translated) => part && pieces.push({ text: part, translated });
  text.split(/(\r\n|\r|\n)/).forEach((line, number) => {
    if (number % 2) return give(line, false);
    for (const sentence of split(line)) {
      const [, before, words, after] = /^(\s*)([^]*?)(\s*)$/.exec(sentence);
      give(before, false);
      give(words, true);
      give(after, false);
    }
  });
  return pieces;
}

function sentenceSplitter(language) {
  let segmenter;
  try {
    segmenter = new Intl.Segmenter(language || undefined, { granularity: "sentence" });
  } catch {
    // A browser that has no such rules, or not for this language.
    return (line) => line.split(/(?<=[.!?\u2026]["'\u00bb\u201d\u2019)\]]*\s+)|(?<=[\u3002\uff01\uff1f\uff61])/);
  }
  return (line) => Array.from(segmenter.segment(line), ({ segment }) => segment);
}

// After the end of a sentence, after a clause, between words: as in translation/lines.py.
const CUTS = [
  /(?<=[.!?\u2026])["'\u00bb\u201d\u2019)\]]*\s+|(?<=[\u3002\uff01\uff1f\uff61])/g,
  /(?<=[,;:\u2013\u2014])\s+|(?<=[\uff0c\u3001\uff1b\uff1a])/g,
  /\s+/g,
];

// Cuts a sentence into parts that fit, near the middle where it ends in a clause, else between words, else anywhere.
function splitToFit(text, fits) {
  text = text.trim();
  const characters = Array.from(text);
  if (characters.length < 2 || fits(text)) return text ? [text] : [];
  let place = characters.slice(0, characters.length >> 1).join("").length;
  for (const cut of CUTS) {
    const ends = Array.from(text.matchAll(cut), (found) => found.index + found[0].length);
    const places = ends.filter((end) => text.length <= 4 * end && 4 * end <= 3 * text.length);
    if (places.length) {
      const middle = text.length >> 1;
      place = places.reduce((best, end) => (Math.abs(end - middle) < Math.abs(best - middle) ? end : best));
      break;
    }
  }
  return [...splitToFit(text.slice(0, place), fits), ...splitToFit(text.slice(place), fits)];
}
