/* What the search of a built site finds: node find.js SITE, with a list of queries as JSON on standard input. */
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = path.join(process.argv[2]);
const read = (...parts) => fs.readFileSync(path.join(folder, ...parts), "utf8");
const element = { classList: { add() {} }, setAttribute() {}, appendChild: () => element, children: [], firstChild: null };
const context = vm.createContext({
  console,
  document: { getElementById: () => element, querySelectorAll: () => [], createElement: () => element, addEventListener() {} },
  location: { search: "" },
  setTimeout() {},
  localStorage: { setItem() {} },
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
  URLSearchParams,
  _ready() {},
  _: (text) => text,
});
context.window = context;
const scripts = [read("_static", "language_data.js"), read("_static", "searchtools.js"), read("_static", "find.js")];
const run = `
${read("searchindex.js")}
findSections();
QUERIES.map((query) => Search._performSearch(...Search._parseQuery(query)).reverse().slice(0, 10)
  .map(([name, title, anchor]) => name + anchor));
`;
context.QUERIES = JSON.parse(fs.readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(vm.runInContext([...scripts, run].join("\n"), context)));
