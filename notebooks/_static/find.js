/* Questions find sections: words of a query are compared with those of titles and index entries.

   The search of Sphinx asks that a page has every word of a query, and that a title or an entry contains the query as
   it stands. Here an entry counts by the words that it has in common with the query, those that no page has left out:
   most if all of its own are asked for, however long the question is. Rare words count more than common ones. */
"use strict";

const FILLERS = new Set(
  ("how do does did can could should would i my me we you your own what which why when where who whose is are was be the"
    + " a an to of in on for with from and or it its this that these there any some use using used get got make want need"
    + " please help question about if not has have having much many more than").split(" "),
);
const LEAST = 0.5; // of what a query and an entry have in common
const [OF_ENTRY, OF_TITLE, MOST_OF_OTHERS] = [40, 34, 18];

function wordsOf(text, stemmer) {
  const words = text.toLowerCase().split(/[^\p{L}\p{N}_&²]+/u).filter((word) => word && !FILLERS.has(word));
  return new Set(words.map((word) => stemmer.stemWord(word)));
}

/* F score that counts the share of the entry's words twice as much as that of the query's. */
function inCommon(query, entry, sum) {
  const shared = sum([...entry].filter((word) => query.has(word)));
  return shared ? (1.25 * shared) / (0.25 * sum([...query]) + sum([...entry])) : 0;
}

function sectionsLike(query) {
  const stemmer = new Stemmer();
  const index = Search._index;
  const entries = [...Object.entries(index.indexentries).map((pair) => [...pair, OF_ENTRY])];
  entries.push(...Object.entries(index.alltitles).map((pair) => [...pair, OF_TITLE]));
  const known = (word) => index.terms[word] !== undefined || index.titleterms[word] !== undefined;
  const all = [...wordsOf(query, stemmer)];
  const asked = new Set(all.some(known) ? all.filter(known) : all);
  const pages = (word) => [index.terms[word] ?? []].flat().length + [index.titleterms[word] ?? []].flat().length;
  const rarity = (word) => Math.log(1 + index.docnames.length / (1 + pages(word)));
  const sum = (words) => words.reduce((total, word) => total + rarity(word), 0);
  const best = new Map();
  const weigh = (entry, places, weight) => {
    const share = inCommon(asked, wordsOf(entry, stemmer), sum);
    if (share < LEAST) return;
    for (const [file, id] of places) {
      const name = index.docnames[file];
      if (name.startsWith("reference/api/")) continue; // functions are found as such
      const score = weight * share;
      const title = index.titles[file];
      const result = [name, title, id ? "#" + id : "", null, score, index.filenames[file], "title"];
      if (!best.has(name) || best.get(name)[4] < score) best.set(name, result);
    }
  };
  entries.forEach(([entry, places, weight]) => weigh(entry, places, weight));
  return [...best.values()];
}

function findSections() {
  const whole = Search._performSearch;
  Search._performSearch = (query, terms, excluded, highlighted, objects) => {
    let found = whole(query, terms, excluded, highlighted, objects);
    const index = Search._index;
    if (!found.length && terms.size > 1) {
      const known = [...terms].filter((term) => !FILLERS.has(term) && (index.terms[term] || index.titleterms[term]));
      found = whole(known.join(" "), new Set(known), excluded, highlighted, new Set(known));
    }
    const sections = sectionsLike(query);
    const names = new Set(sections.map((section) => section[0]));
    const others = found.filter((result) => !names.has(result[0]));
    others.forEach((result) => (result[4] = Math.min(result[4], MOST_OF_OTHERS))); // parts of words are among them
    return [...others, ...sections].sort((left, right) => left[4] - right[4]); // the best is the last
  };
}

if (typeof document !== "undefined") document.addEventListener("DOMContentLoaded", findSections);
