// Tables that can be sorted by every column and saved; and the table that stands behind every chart.

const WORDS = ["budget", "allocator", "verdict", "second opinion", "oracle", "chance", "policy", "kept", "modes", "unit", "cell", "term", "mode", "system", "why", "object", "action"];

// rows: arrays of {text, mark, stale, again, title}; `rules` are the rows above which a rule is drawn.
function sortable(title, header, rows, { rules = [], notes = [], latex = null, file = "table", hidden = false } = {}) {
  const body = rows.map((row, i) => h("tr", { class: rules.includes(i) ? "rule" : null }, row.map((cell, c) => {
    const classes = [WORDS.includes(header[c]) && "words", cell.mark, cell.stale && "stale", cell.again && "again"];
    return h("td", { class: classes.filter(Boolean).join(" ") || null, title: cell.title }, cell.text + (cell.mark === "worse" ? "*" : ""));
  })));
  const head = header.map((name) => withSorting(h("th", { scope: "col", class: WORDS.includes(name) ? "words" : null, "data-tip": GLOSSARY[name] || null }, name)));
  const plain = () => csvOf(header, rows.map((row) => row.map((cell) => cell.text.replaceAll(MINUS, "-").replaceAll("\u2009", ""))));
  const tools = h("div", { class: "table-tools" },
    h("button", { type: "button", class: "save-csv", onclick: () => saveFile(`${file}.csv`, plain(), "text/csv") }, "Save as CSV"),
    latex ? h("button", { type: "button", class: "save-latex", onclick: () => saveFile(`${file}.tex`, latex, "text/x-tex") }, "Save as LaTeX") : null);
  return h("div", { class: "table" },
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      h("table", {}, h("caption", { class: hidden && "visually-hidden" }, title), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body))),
    notes.map((note) => h("p", { class: "note" }, note)), tools);
}

function behind(title, header, rows) {
  const cells = rows.map((row) => row.map((content) => ({ text: String(content) })));
  return h("details", { class: "behind" }, h("summary", {}, "The numbers behind this chart"), sortable(title, header, cells, { file: title.toLowerCase().replace(/[^a-z0-9]+/g, "-"), hidden: true }));
}

const PATCHED = { gain: "gain", benefit: "benefit", harm: "harm", nDG: "ndg", "vs random": "versus_random" };
const RESTING = ["gain 95 %", "nDG 95 %", "nDG of ladder", "vs random 95 %", "vs random, all rows", "second 95 %", "second opinion", "verdict"];

// The table of verdicts is made in Python; under other weights its point values are replaced and the rest is stale.
function resultTable(cell, table, view, index) {
  const again = view.stale && index === 0;
  let above = null;
  const rows = table.rows.map((row, i) => row.map(([content, mark], c) => {
    const name = table.header[c];
    if (c === 0) {
      const first = content !== "";
      above = first ? content : above;
      return { text: above, again: !first };
    }
    if (!view.stale) return { text: content, mark };
    if (!again) return { text: content, stale: c > 1, title: "as judged with the weights of the result" };
    const source = view.rows[i];
    if (name in PATCHED) return { text: patched(name, source), title: source.reason };
    return { text: content, stale: RESTING.includes(name), title: RESTING.includes(name) ? "as judged with the weights of the result" : null };
  }));
  const notes = [...table.notes];
  if (view.stale) notes.unshift("Grey: as judged with the weights of the result. Run the command for these.");
  return sortable(table.title, table.header, rows, { rules: table.rules, notes, latex: view.stale ? null : table.latex, file: `${cell.name}-${index + 1}` });
}

function patched(name, row) {
  const value = row[PATCHED[name]];
  const plain = (v, digits) => (known(v) ? fixed(v, digits) : "–");
  if (name === "nDG") return plain(value, 3);
  if (row.versus_random_unit === "loss") return plain(name === "vs random" ? row.versus_random_loss : value, 3);
  if (name === "vs random") return known(value) ? `${fixed(100 * value, 2)}%` : "–";
  if (!known(value)) return "–";
  return row.cheap_loss > 0 ? `${fixed((100 * value) / row.cheap_loss, 2)}%` : plain(value, 3);
}
