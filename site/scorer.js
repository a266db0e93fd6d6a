// The order of the search's results: guides, then the course and results, then objects of the reference; an object whose name
// merely contains the word (the "rope" of "property") comes last.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    if (/^(docs\/results|CHANGELOG)/.test(page)) return score - 20;
    if (/^docs\/(course|errata|api)/.test(page)) return score - 5;
    return /^docs\//.test(page) ? score + 20 : score;
  },
  objNameMatch: 4,
  objPartialMatch: -60,
  objPrio: { 0: 0, 1: -5, 2: -10 },
  objPrioDefault: -5,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
