// Before anything is drawn: light or dark, as the reader chose or as the system says.
function setTheme(name, keep) {
  document.documentElement.dataset.theme = name;
  const button = document.getElementById("theme");
  if (button) button.textContent = name === "dark" ? "Light" : "Dark";
  if (keep) try { localStorage.setItem("deepval-theme", name); } catch { /* a page from disk may have no storage */ }
}
(() => {
  let kept = null;
  try { kept = localStorage.getItem("deepval-theme"); } catch { /* as above */ }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(kept || (dark.matches ? "dark" : "light"), false);
  if (!kept) dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light", false));
  document.addEventListener("DOMContentLoaded", () => setTheme(document.documentElement.dataset.theme, false));
})();
