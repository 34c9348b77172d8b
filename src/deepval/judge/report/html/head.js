// Of every page: light or dark, as the reader chose or as the system says, before anything is drawn; and tables that sort.
function setTheme(name, keep) {
  document.documentElement.dataset.theme = name;
  if (keep) try { localStorage.setItem("deepval-theme", name); } catch { /* a page from disk may have no storage */ }
}
(() => {
  let kept = null;
  try { kept = localStorage.getItem("deepval-theme"); } catch { /* as above */ }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(kept || (dark.matches ? "dark" : "light"), false);
  if (!kept) dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light", false));
  document.addEventListener("DOMContentLoaded", () => {
    const { dataset } = document.documentElement;
    document.getElementById("theme")?.addEventListener("click", () => setTheme(dataset.theme === "dark" ? "light" : "dark", true));
  });
})();

function sortKey(cell) {
  const words = cell.textContent.trim().replaceAll("\u2212", "-").replaceAll(",", "");
  const numeral = /^[<>[\s]*([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)/i.exec(words);
  return ["", "–", "undefined"].includes(words) ? null : numeral ? Number(numeral[1]) : words;
}
// Nothing comes last.
function compared(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
function sortBy(heading) {
  const body = heading.closest("table").tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, key: sortKey(row.cells[heading.cellIndex]) }));
  const before = heading.getAttribute("aria-sort");
  const rising = before === "none" ? heading.classList.contains("words") : before === "descending";
  for (const other of heading.parentNode.cells) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
  rows.sort((a, b) => (a.key === null || b.key === null || rising ? 1 : -1) * compared(a.key, b.key));
  body.replaceChildren(...rows.map(({ row }) => row));
  for (const { row } of rows) for (const marked of [row, ...row.cells]) marked.classList.remove("rule", "again");
}
// The heading of a column becomes a button that sorts by it.
function withSorting(heading) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...heading.childNodes);
  button.setAttribute("aria-label", `${button.textContent}, sort`);
  button.addEventListener("click", () => sortBy(heading));
  heading.setAttribute("aria-sort", "none");
  heading.append(button);
  return heading;
}
