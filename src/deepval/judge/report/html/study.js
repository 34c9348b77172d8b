// A page of tables that are there already.
document.addEventListener("DOMContentLoaded", () => {
  for (const heading of document.querySelectorAll("thead th")) withSorting(heading);
  document.documentElement.dataset.ready = "true";
});
