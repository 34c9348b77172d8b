// The page: what is chosen (cell, budget, weights, frame), and everything drawn from it.

const DATA = JSON.parse(byId("data").textContent);
const { cells: CELLS, words: GLOSSARY } = DATA;
const state = { cell: 0, budget: null, frame: null, band: null, weights: {}, styles: {}, hidden: new Set(), again, remember, draw: drawCharts };
const main = byId("page");
let parts = {};
let waitingToDraw = false;
let lastView = {};

// Results of one cell, such as free, charged and causal, are one entry with a switch: "name" and "name, charged".
const groupOf = (cell) => (CELLS.find((other) => cell.name.startsWith(`${other.name}, `)) || cell).name;
const groups = CELLS.filter((cell) => cell.name === groupOf(cell));
const kindOf = (cell) => cell.name.slice(groupOf(cell).length + 2) || "not charged";
const sameCell = (cell) => CELLS.filter((other) => groupOf(other) === groupOf(cell));
const firstOf = (cell) => CELLS.findIndex((other) => other.name === groupOf(cell));
const alike = (cell, kind) => CELLS.indexOf(sameCell(cell).find((other) => kindOf(other) === kind) || cell);

function start() {
  for (const { result } of CELLS) for (const part of ["rows", "gaps", "streams"]) result[part] = result[part].rows.map((row) => Object.fromEntries(result[part].names.map((name, i) => [name, row[i]])));
  const names = [...new Set(CELLS.flatMap((cell) => own(cell.result.rows).map((row) => row.allocator)))].sort();
  names.forEach((name, i) => { state.styles[name] = styleOf(i); });
  const shared = (part) => (typeof part === "string" ? CELLS.find((cell) => cell.name === part) : null);
  for (const cell of CELLS) {
    cell.frames = (shared(cell.frames) || cell).frames;
    if (cell.inputs) cell.result.inputs = shared(cell.inputs) ? shared(cell.inputs).result.inputs : unpacked(cell.inputs);
  }
  for (const cell of CELLS) if (cell.result.inputs) state.weights[cell.name] = { ...cell.result.inputs.weights };
  byId("cell").append(...groups.map((cell) => optionOf([firstOf(cell), cell.name])));
  byId("cell").addEventListener("change", (event) => { choose(alike(CELLS[event.target.value], kindOf(CELLS[state.cell]))); remember(); });
  byId("kind").addEventListener("change", (event) => { choose(Number(event.target.value)); remember(); });
  byId("budget").addEventListener("change", (event) => { state.budget = event.target.value; drawAll(); remember(); });
  byId("cell").closest("label").hidden = groups.length < 2;
  window.addEventListener("hashchange", followLink);
  let screen = null;
  window.addEventListener("beforeprint", () => { for (const item of document.querySelectorAll("details.more")) item.open = true; screen = document.documentElement.dataset.theme; setTheme("light", false); });
  window.addEventListener("afterprint", () => setTheme(screen, false));
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawCharts, 120); });
  tips();
  if (!followLink()) choose(0);
  document.documentElement.dataset.ready = "true";
}

function choose(index) {
  state.cell = index;
  const { rows } = CELLS[index].result;
  const budgets = [...new Map(rows.map((row) => [budgetKey(row), row])).values()];
  if (!budgets.some((row) => budgetKey(row) === state.budget)) {
    const answers = CELLS[index].result.answers.map((answer) => answer.budget);
    const headline = answers.find((budget) => budget.kind === answers[0].kind && budget.alpha === 0.2) || answers[0];
    const first = budgets.find((row) => headline && budgetKey(row) === budgetKey(headline)) || budgets.find((row) => row.kind === "selection" && row.alpha === 0.2) || own(rows).find((row) => !row.spender) || own(rows)[0] || budgets[0];
    state.budget = first ? budgetKey(first) : null;
  }
  const select = byId("budget");
  // Units and accounting are told where there are several.
  const hasOne = (kind) => new Set(budgets.filter((row) => row.kind === kind).map((row) => `${row.convention}${row.accounting}`)).size < 2;
  const label = (row) => (hasOne(row.kind) && !row.spender ? `${row.kind} ${share(row.alpha)}` : budgetLabel(row));
  select.replaceChildren(...budgets.map((row) => optionOf([budgetKey(row), label(row)])));
  select.value = state.budget;
  byId("cell").value = firstOf(CELLS[index]);
  const kinds = sameCell(CELLS[index]);
  const kind = byId("kind");
  kind.replaceChildren(...kinds.map((cell) => optionOf([CELLS.indexOf(cell), kindOf(cell)])));
  kind.value = index;
  kind.closest("label").hidden = kinds.length < 2;
  drawAll();
}

// What is chosen is in the address, so that it survives a reload and can be shared.
function remember() {
  const chosen = { cell: CELLS[state.cell].name, budget: state.budget, ...(known(state.band) ? { allocator: state.band } : {}), ...(state.frame ? { frame: state.frame } : {}) };
  history.replaceState(null, "", `#${new URLSearchParams([...Object.entries(chosen), ...[...state.hidden].map((name) => ["hidden", name])])}`);
}

function chooseInOverview(index) {
  choose(index);
  document.querySelector("#overview [aria-pressed=true]").focus();
  remember();
}

function viewOf(cell) {
  const { inputs } = cell.result;
  const weights = state.weights[cell.name];
  if (!inputs || sameWeights(weights, inputs.weights)) return cell.result;
  if (lastView.cell !== cell || !sameWeights(lastView.weights, weights)) lastView = { cell, weights: { ...weights }, view: recombined(cell.result, weights) };
  return lastView.view;
}

function drawAll() {
  const cell = CELLS[state.cell];
  const view = viewOf(cell);
  const sliders = weightsSection(cell, state, refreshSoon);
  const frames = explorer(cell, state, goTo);
  // In the order of the page.
  parts = {
    hero: (view) => hero(cell, view, state),
    sure: (view) => sureSection(cell, view, state),
    verdicts: (view) => verdictsSection(cell, view, state),
    overview: () => (groups.length > 1 ? overview(groups.map((other) => CELLS[alike(other, kindOf(cell))]), cell, state, chooseInOverview) : null),
    signs: (view) => signs(cell, view, state),
    gains: (view) => curves(cell, view, state),
    weights: () => sliders,
    harm: (view) => benefitAndHarm(cell, view, state),
    charged: (view) => charged(cell, view, state),
    gap: (view) => gapSplit(cell, view, state),
    streams: (view) => streamsSection(cell, view, state),
    units: (view) => unitsSection(cell, view),
    frames: () => frames,
    tables: (view) => tablesSection(cell, view),
    source: (view) => source(cell, view),
    glossary,
  };
  const nodes = Object.entries(parts).map(([name, make]) => ({ name, node: make(view) }));
  // What does not apply to a cell is absent.
  parts.drawn = nodes.filter(({ node }) => node);
  // The first screen is the answer alone; the way to everything else stands below it.
  const [first, ...rest] = parts.drawn.map((item) => item.node);
  main.replaceChildren(first, byId("bar"), ...rest);
  const names = { sure: "How sure?", verdicts: "At this budget", gain: "Budgets", weights: "Weights", harm: "Harm", charged: "Cost", units: "Units", frames: driving(cell) ? "Frames" : "Inputs", tables: "Tables", glossary: "Words" };
  document.querySelector("nav").replaceChildren(...parts.drawn.filter(({ node }) => names[node.id]).map(({ node }) => h("a", { href: `#${node.id}`, onclick: jump }, names[node.id])));
  drawCharts();
}

// Everything but the sliders is made again, so that a slider keeps the focus.
function refresh() {
  waitingToDraw = false;
  for (const item of parts.drawn) again(item.name);
}

// Many small moves of a slider are drawn once.
function refreshSoon() {
  parts.drawn.find((item) => item.name === "weights").node.refresh();
  if (!waitingToDraw) setTimeout(refresh, 0);
  waitingToDraw = true;
}

function again(name) {
  const item = parts.drawn.find((part) => part.name === name);
  if (item.node.refresh) item.node.refresh();
  else {
    const fresh = parts[name](viewOf(CELLS[state.cell])) || h("section", { hidden: true });
    const open = [...item.node.querySelectorAll("details")].map((detail) => detail.open);
    item.node.replaceWith(fresh);
    [...fresh.querySelectorAll("details")].forEach((detail, i) => { detail.open = Boolean(open[i]); });
    item.node = fresh;
  }
  drawCharts();
}

function drawCharts() {
  for (const figure of document.querySelectorAll("figure")) if (figure.draw) figure.draw();
}

function goTo(cell, input) {
  const address = `#frame=${encodeURIComponent(`${cell}/${input}`).replaceAll("%2F", "/")}`;
  if (location.hash === address) followLink();
  else location.hash = address;
}

function followLink() {
  if (location.hash.startsWith("#cell=")) {
    const chosen = new URLSearchParams(location.hash.slice(1));
    const index = CELLS.findIndex((cell) => cell.name === chosen.get("cell"));
    if (index < 0) return false;
    Object.assign(state, { budget: chosen.get("budget"), band: chosen.get("allocator"), frame: chosen.get("frame"), hidden: new Set(chosen.getAll("hidden")) });
    choose(index);
    return true;
  }
  if (!location.hash.startsWith("#frame=")) return false;
  let wanted = location.hash.slice("#frame=".length);
  try { wanted = decodeURIComponent(wanted); } catch { return false; }
  const index = CELLS.findIndex((cell) => wanted.startsWith(`${cell.name}/`) && cell.frames && cell.frames.frames.some((frame) => `${cell.name}/${frame.input}` === wanted));
  if (index < 0) return false;
  const moved = index !== state.cell || !parts.drawn;
  state.frame = wanted.slice(CELLS[index].name.length + 1);
  if (moved) choose(index);
  else parts.drawn.find((item) => item.name === "frames").node.refresh();
  const section = byId("frames");
  if (moved || section.getBoundingClientRect().top > innerHeight || section.getBoundingClientRect().bottom < 0) section.scrollIntoView();
  return true;
}

// A hover box stands below what it explains, or above it where there is no room below.
function tips() {
  const tip = byId("tip");
  const show = (event) => {
    const about = event.target.closest && event.target.closest("[data-tip]");
    tip.classList.toggle("on", Boolean(about));
    if (!about) return;
    tip.textContent = about.getAttribute("data-tip");
    const box = about.getBoundingClientRect();
    const x = box.width > 300 && known(event.clientX) ? event.clientX : box.left;
    tip.style.left = `${Math.max(8, Math.min(x, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${box.bottom + 8 + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - 8 : box.bottom + 8}px`;
  };
  for (const kind of ["pointermove", "focusin"]) document.addEventListener(kind, show);
}

start();
