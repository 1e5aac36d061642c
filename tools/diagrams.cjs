// Parse every diagram of the pages with the Mermaid that the site has: the reader's browser would show a
// wrong one as text, and say nothing. As in: node tools/diagrams.cjs .venv-docs/mermaid.min.js build/pages
const { readdirSync, readFileSync } = require("node:fs");
const { join } = require("node:path");
const { runInThisContext } = require("node:vm");

const [library, folder] = process.argv.slice(2);
// Mermaid cleans texts with DOMPurify, which passes them on where it finds a document that it cannot use.
globalThis.window = { document: { nodeType: 9, implementation: {}, createElement: () => ({}) }, Element: class {} };
runInThisContext(readFileSync(library, "utf8"));

async function check() {
  const pages = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".md"));
  let found = 0;
  for (const page of pages) {
    for (const [, text] of readFileSync(join(folder, page), "utf8").matchAll(/^```mermaid\n(.*?)^```/gms)) {
      found += 1;
      await mermaid.parse(text).catch((error) => {
        console.error(`${page}: the diagram that begins with '${text.split("\n")[1].trim()}': ${error.message}`);
        process.exitCode = 1;
      });
    }
  }
  if (!found) {
    console.error(`${folder} has no diagram: is it the folder of the pages?`);
    process.exitCode = 1;
  }
}

check();
