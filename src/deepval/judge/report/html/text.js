// Numbers and names -> text, and text -> elements. Text of the data only ever becomes textContent or an attribute.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") node.style.cssText = value; // the page's policy refuses the attribute
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== "") node.append(child);
  return node;
}
const byId = (id) => document.getElementById(id);
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const known = (value) => value !== null && value !== undefined;
const MINUS = "\u2212";
function fixed(value, digits) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text;
}
const number = (value, digits = 3) => (known(value) ? fixed(value, digits).replace("-", MINUS) : "undefined");
// Shares beyond 1000 % are shares of something almost zero: only on which side is said, as in Python.
const MOST_SHARE = 10;
const beyond = (value) => (known(value) && Math.abs(value) > MOST_SHARE ? (value < 0 ? `< ${MINUS}1000` : "> 1000") : "");
const percent = (value, digits = 1) => (known(value) ? `${beyond(value) || number(100 * value, digits)}\u2009%` : "undefined");
const signed = (value, digits = 1) => (known(value) ? beyond(value) || `${value > 0 ? "+" : ""}${number(100 * value, digits)}` : "undefined");
const span = (low, high, form) => (known(low) && known(high) ? `[${form(low)}, ${form(high)}]` : "");
const count = (value) => value.toLocaleString("en-US");
const many = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
const share = (alpha) => `${Number((100 * alpha).toPrecision(6))}\u2009%`;
const UNITS = { ms: "ms", mj: "mJ", mj_gpu: "mJ, GPU rail", mj_all: "mJ, all rails", usd: "USD" };

// A router that chooses itself is judged at what it spends: a share with many digits.
const budgetKey = (row) => [row.kind, row.alpha, row.convention || "", row.accounting || ""].join("|");
function budgetLabel(row) {
  const unit = row.convention ? ` (${UNITS[row.convention] || row.convention}${row.accounting === "skipping" ? ", skipping" : ""})` : "";
  return row.spender ? `${row.kind} ${share(Number(row.alpha.toPrecision(4)))}${unit}, what ${row.spender} spends` : `${row.kind} ${share(row.alpha)}${unit}`;
}
const REFERENCES = ["random", "random-ladder", "never", "all-full", "oracle", "oracle-ladder"];
const ALWAYS_MODE = "always ";
const nameOf = (row) => (row.allocator === "all-full" ? "always" : row.allocator);
const chanceOf = (row) => row.chance || "random";
const isFixed = (name) => name.startsWith(ALWAYS_MODE);
const isReference = (name) => REFERENCES.includes(name) || isFixed(name);
// The three verdicts, and the colour that goes with each.
const TONE = { run: "run", "do not run": "stop", "not settled": "open" };

function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

function saveFile(name, text, type) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function csvOf(header, rows) {
  const cell = (text) => {
    const safe = /^[=+@\t\r]|^-(?![\d.])/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [header, ...rows].map((row) => row.map((text) => cell(String(text))).join(",")).join("\n") + "\n";
}

const term = (name, words = name) => h("span", { class: "term", tabindex: "0", "data-tip": GLOSSARY[name] }, words);
