// A page of tables that are there already: light or dark, and a click on a heading sorts its table.
function sortKey(cell) {
  const words = cell.textContent.trim().replaceAll("\u2212", "-").replaceAll(",", "");
  const numeral = /^[<>[\s]*([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)/i.exec(words);
  return words === "" || words === "–" ? null : numeral ? Number(numeral[1]) : words;
}
function inOrder(a, b) {
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
  const empty = (item) => Number(item.key === null);
  rows.sort((a, b) => empty(a) - empty(b) || (empty(a) ? 0 : (rising ? 1 : -1) * inOrder(a.key, b.key)));
  body.replaceChildren(...rows.map(({ row }) => row));
  for (const { row } of rows) row.classList.remove("rule");
}
document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme").addEventListener("click",
    () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
  for (const heading of document.querySelectorAll("thead th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.setAttribute("aria-label", `${button.textContent}, sort`);
    button.addEventListener("click", () => sortBy(heading));
    heading.setAttribute("aria-sort", "none");
    heading.append(button);
  }
  document.documentElement.dataset.ready = "true";
});
