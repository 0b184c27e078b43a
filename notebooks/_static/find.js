/* Questions find sections: words of a query are compared with those of titles and index entries.

   The search of Sphinx asks that a page has every word of a query, and that a title or an entry contains the query as
   it stands. Here an entry counts by the share of words that it has in common with the query, and words that no page
   has are left out. */
"use strict";

const FILLERS = new Set(
  ("how do does did can could should would i my me we you your own what which why when where who whose is are was be the"
    + " a an to of in on for with from and or it its this that these there any some use using used get got make want need"
    + " please help question about if not has have having much many more than").split(" "),
);
const LEAST = 0.5; // of what a query and an entry have in common
const [OF_ENTRY, OF_TITLE] = [40, 34]; // above what the text of a page counts

function wordsOf(text, stemmer) {
  const words = text.toLowerCase().split(/[^\p{L}\p{N}_&²]+/u).filter((word) => word && !FILLERS.has(word));
  return new Set(words.map((word) => stemmer.stemWord(word)));
}

function inCommon(query, entry) {
  const shared = [...entry].filter((word) => query.has(word)).length;
  return shared ? (2 * shared) / (query.size + entry.size) : 0;
}

function sectionsLike(query) {
  const stemmer = new Stemmer();
  const index = Search._index;
  const asked = wordsOf(query, stemmer);
  const best = new Map();
  const weigh = (entry, places, weight) => {
    const share = inCommon(asked, wordsOf(entry, stemmer));
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
  for (const [entry, places] of Object.entries(index.indexentries)) weigh(entry, places, OF_ENTRY);
  for (const [title, places] of Object.entries(index.alltitles)) weigh(title, places, OF_TITLE);
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
    return [...others, ...sections].sort((left, right) => left[4] - right[4]); // the best is the last
  };
}

if (typeof document !== "undefined") document.addEventListener("DOMContentLoaded", findSections);
