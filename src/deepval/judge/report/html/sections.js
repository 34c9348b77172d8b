// One function per section: (cell, view, state) -> element. `view` is the result, or the result under other weights.

const absent = (...what) => h("p", { class: "absent" }, "Not measured: ", ...what);
const optionOf = ([value, label]) => h("option", { value }, label);
const code = (content) => h("code", {}, content);

function block(id, title, lead, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), lead ? h("p", { class: "lead" }, lead) : null, ...children);
}

function legendOf(items) {
  return h("ul", { class: "legend" }, items.map(([name, colour, stroke]) =>
    h("li", {}, h("i", { class: stroke && "stroke", style: stroke ? `border-color: ${colour}; border-top-style: ${stroke}` : `background: ${colour}` }), name)));
}

// Opened on demand.
const folded = (summary, ...children) => h("details", { class: "more", ontoggle: () => state.draw() }, h("summary", {}, summary), ...children);

function jump(event) {
  event.preventDefault();
  const section = document.querySelector(event.currentTarget.getAttribute("href"));
  if (section.id === "glossary") section.querySelector("details").open = true;
  section.scrollIntoView();
}

const rowsAt = (view, key) => view.rows.filter((row) => budgetKey(row) === key);
const own = (rows) => rows.filter((row) => !isReference(row.allocator));

// The best of the result first; the order stays while sliders move.
function bestFirst(cell, key, items) {
  const judged = new Map(rowsAt(cell.result, key).map((row) => [row.allocator, row.lead ?? row.versus_random]));
  const value = (item) => judged.get(item.allocator) ?? null;
  const place = (item) => (["random", "random-ladder"].includes(item.allocator) ? 0 : ["never", "all-full"].includes(item.allocator) || isFixed(item.allocator) ? 1 : isReference(item.allocator) ? 3 : 2);
  const falling = (a, b) => (a === null || b === null ? compared(a, b) : b - a);
  return [...items].sort((a, b) => place(a) - place(b) || falling(value(a), value(b)));
}

const judgedRows = (cell, view, state) => bestFirst(cell, state.budget, own(rowsAt(view, state.budget)));
const answerAt = (cell, key) => cell.result.answers.find((answer) => budgetKey(answer.budget) === key);

const toneOf = (row) => (row.stale ? "stale" : TONE[row.answer] || "");
const chipOf = (row) => h("span", { class: `chip ${toneOf(row)}` }, row.stale ? "not judged yet" : row.answer || row.verdict || "no verdict");

const against = (row, name) => {
  const inLoss = row.versus_random_unit === "loss";
  const key = `versus_${name}${inLoss ? "_loss" : ""}`;
  const form = inLoss ? (v) => number(v) : (v) => signed(v);
  const around = row.stale ? "" : ` ${span(row[`${key}_lo`], row[`${key}_hi`], form) || "(no interval)"}`;
  return known(row[key]) ? `${form(row[key])}${inLoss ? "" : "\u2009%"}${around}` : "";
};

const spanOf = (row, key, digits) => span(row[`${key}_lo`], row[`${key}_hi`], (v) => signed(v, digits));

// The price-blind mixture of several models is named by what it does.
const chanceWords = (row) => (chanceOf(row) === "random-ladder" ? "the best mixture of models at random" : chanceOf(row));

// A row in one sentence.
function sentence(row) {
  const at = budgetLabel(row);
  const name = h("strong", {}, row.allocator);
  if (row.verdict === "infeasible" || row.gain === null) return h("p", {}, name, ` has no value at ${at}: ${row.reason || "undefined"}.`);
  const gain = row.gain_share === null || beyond(row.gain_share) ? `it gains ${Number(row.gain.toPrecision(3))} in units of the loss` : `it removes ${percent(row.gain_share)} of the loss`;
  const lead = row.lead_words && !row.stale ? `; against the best blind choice at its cost ${row.lead_words}` : "";
  const chance = against(row, "random") && `; against ${chanceWords(row)} ${against(row, "random")}${row.verdict && !row.stale ? ` (${row.verdict_words || row.verdict})` : ""}`;
  return h("p", {}, name, ` at ${at}${row.spender ? "," : ""}: `, h("span", { class: "num" }, `${gain}${lead}${chance || (lead ? "" : `; ${row.reason || "no value"}`)}.`));
}

// What a unit is in data sets that are known to be real, or simulated.
const UNIT_WORDS = { synthetic: "scene", kitti: "drive", nuscenes: "scene", nuplan: "log" };
const datasetOf = (cell) => cell.frames?.dataset || (cell.result.provenance.cell || "").split("-")[0];
const unitWord = (cell) => UNIT_WORDS[datasetOf(cell)] || cell.result.setting.nouns[1];

// What else speaks against a `run`, each with its figure.
function doubts(cell, view, row) {
  const unit = unitWord(cell);
  const found = [];
  const part = view.units.find((item) => item.unit === row.rests_on && item.alpha === row.alpha && row.kind === "selection" && row.gain > 0);
  if (known(row.rests_on)) found.push(`Against random it rests on ${unit} ${row.rests_on}${part ? ` (${percent(part.gains[row.allocator] / row.gain, 0)} of the gain)` : ""}, without which it is not shown.`);
  if (row.second_verdict && row.second_verdict !== row.verdict) found.push(`A more cautious interval against random says ${row.second_verdict}: ${spanOf(row, "versus_random_second")}.`);
  return found;
}

const driving = (cell) => Boolean((cell.frames && !cell.frames.rows) || cell.result.provenance.cell);

// The data in one line.
function dataLine(cell, view, row) {
  const { modes, inputs, units } = view.setting;
  const name = datasetOf(cell);
  const unit = unitWord(cell);
  const kind = name === "synthetic" ? "Simulated data" : name ? `${UNIT_WORDS[name] ? "Real data" : "Data"} (${name})` : "A table of losses";
  return h("p", { class: "kicker" }, h("strong", {}, kind), UNIT_WORDS[name] ? "" : ", real or simulated is not stated", cell.name === name ? "" : ` · ${cell.name}`,
    ` · ${many(inputs, cell.result.setting.nouns[0])} in ${units} `, term("unit", `${unit}${units === 1 ? "" : "s"}`), unit === "unit" ? " (groups)" : "",
    ` · ${["cheap", ...modes.slice(0, -1)].join(" → ").replace(" →", "")} → expensive ${modes.at(-1)}${row ? ` · budget ${row.kind === "selection" && !row.spender ? `${share(row.alpha)} of the inputs` : budgetLabel(row)}` : ""}`, cell.date ? ` · judged ${cell.date}` : "");
}

// The command to type next, which was written with the answer; none where a router chooses its own budget.
function nextCommand(cell, answer) {
  const { answers, effect } = cell.result;
  const words = cell.next[effect ? 0 : answers.indexOf(answer)];
  // Words are put into lines, and none is broken.
  return words ? wrapped(words.filter(Boolean), 44).join(" \\\n  ") : null;
}

// A figure stays with its unit.
const unbroken = (words) => words.replaceAll(" %", "\u00a0%");
const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);
// `4.2 points [1.1, 7.0]` or `0.012 [0.001, 0.02] per input`, in its parts.
function leadParts(words) {
  const [, figure, unit, bounds, more] = /^(\S+)\s*([^[]*?)\s*(\[[^\]]*\])\s*(.*)$/.exec(words) || [null, words, "", "", ""];
  return { figure: figure.startsWith(MINUS) || Number(figure) === 0 ? figure : `+${figure}`, unit: unit || more, bounds };
}

// What the first screen says about an answer.
function wordsOfAnswer(answer) {
  const { verdict, candidate, sentence: whole } = answer;
  const several = /^Do not run any of these \d+/.exec(whole);
  const title = verdict === "run" ? `Run ${candidate}` : !known(candidate) ? whole.split(": ")[0].split(" at ")[0] : verdict === "not settled" ? `Not settled: ${candidate}` : several ? several[0] : `Do not run ${candidate}`;
  const reason = whole.slice(whole.indexOf(": ", known(candidate) && verdict !== "not settled" && !several ? title.length : 0) + 2);
  const lines = [verdict === "do not run" ? capital(reason) : answer.instead];
  const more = reason.split("; ").at(-1);
  if (verdict === "not settled" && more.includes("would settle it")) lines.push(capital(more));
  // The intervals of what else could be run stand below.
  if (answer.hint) lines.push(answer.hint.replace(/ \[[^\]]*\]/g, "").replace("the best blind mixture", "blind"));
  const lead = answer.lead_words ? { ...leadParts(answer.lead_words), against: `against ${answer.against}` } : null;
  return { tone: TONE[verdict], title, lead, lines, doubt: answer.doubt };
}

// What it says where no allocator was judged: does the dearer mode help?
function wordsOfEffect(cell, effect) {
  const [cheap, full] = [cell.result.setting.modes[0], cell.result.setting.modes.at(-1)];
  const axis = cell.pictures.length ? cell.pictures[0].quality_axis : "";
  const isShare = axis.startsWith("loss removed, %");
  const form = (value) => (isShare || axis.startsWith("right") ? number(100 * value, 1) : number(value));
  const lead = known(effect.gain) ? { figure: form(effect.gain), unit: isShare ? "%" : axis.startsWith("right") ? "points" : "per input", bounds: span(effect.gain_lo, effect.gain_hi, form), against: isShare ? `of the loss of ${cheap} removed` : `above ${cheap}` } : null;
  const tone = { helps: "run", harms: "stop" }[effect.verdict] || "open";
  return { tone, title: effect.verdict === "not settled" ? `Not settled: ${full}` : `${full} ${effect.verdict}`, lead, lines: effect.sentences.slice(1, 2), doubt: effect.doubt };
}

// The first screen: verdict, one number with its interval, what to do instead, one doubt, the next command; the picture.
function hero(cell, view, state) {
  const answer = answerAt(cell, state.budget);
  const effect = cell.result.effect;
  const nothing = { tone: "open", title: "No allocator was judged at this budget", lines: [] };
  let words = effect ? wordsOfEffect(cell, effect) : answer ? wordsOfAnswer(answer) : nothing;
  if (view.stale) words = { tone: "open", title: "Other loss weights: not judged yet", lines: ["Point values below are exact. Verdicts and this picture need the command below the sliders."] };
  const { lead } = words;
  const command = view.stale ? null : nextCommand(cell, answer);
  // Who names a floor asks for that first, and for a budget second.
  const floor = view.stale || !cell.result.keep ? null : cell.result.keep.sentence;
  const spec = pictureSpec(cell, state, answer, effect);
  const strip = effect ? stripSpec(cell) : null;
  const drawn = [spec, strip].filter(Boolean).map((item) => chart({ ...item, apart: true }));
  const node = h("section", { class: `hero answer tone-${words.tone}`, id: "verdict", "aria-label": "Verdict" },
    h("div", { class: "words" },
      floor && h("p", { class: "floor" }, unbroken(floor)),
      h("h1", {}, words.title),
      lead && h("p", { class: "number" }, h("b", {}, lead.figure), " ", h("small", {}, lead.unit), h("span", {}, `${lead.bounds} ${lead.against}`)),
      words.lines.filter(Boolean).map((line) => h("p", { class: "below" }, unbroken(line))),
      words.doubt && h("p", { class: "doubt" }, `Doubt: ${words.doubt.charAt(0).toLowerCase()}${words.doubt.slice(1)}`),
      command && h("pre", { class: "command", id: "next", tabindex: "0" }, command)),
    h("div", { class: view.stale ? "pictures old" : "pictures" }, drawn.map((item) => item.figure)));
  // The numbers behind the pictures, and the menus to save them, stand below the fold.
  state.heroTools = drawn.map((item) => item.tools);
  return node;
}

// What the answer rests on.
function sureSection(cell, view, state) {
  const rows = judgedRows(cell, view, state);
  const answer = answerAt(cell, state.budget);
  const effect = cell.result.effect;
  const row = rows.find((item) => answer && item.allocator === answer.candidate);
  const sentences = view.stale ? [] : effect ? effect.sentences : answer ? [answer.sentence, answer.hint, ...(row ? doubts(cell, view, row) : [])] : [];
  const answers = view.stale || effect ? [] : cell.result.answers;
  const others = answers.length > 1 ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Answers" }, h("table", { id: "answers" },
    h("thead", {}, h("tr", {}, ["budget", "answer", "candidate", "lead over the best blind choice", "best fixed mode that fits"].map((name) => h("th", { scope: "col", class: "words" }, name)))),
    h("tbody", {}, answers.map((item) => h("tr", {}, h("th", { scope: "row" }, budgetLabel(item.budget)), h("td", { class: "words" }, chipOf({ answer: item.verdict })), h("td", { class: "words" }, item.candidate || "–"), h("td", { class: "words" }, item.lead_words || "–"), h("td", { class: "words" }, item.best_fixed)))))) : null;
  return block("sure", "How sure?", null, dataLine(cell, view, rows[0] || rowsAt(view, state.budget)[0]),
    view.warnings.map((warning) => h("p", { class: "note warn" }, warning)),
    sentences.filter(Boolean).map((words) => h("p", {}, words)), others,
    view.stale ? null : h("p", { class: "note" }, `${effect ? "" : "The answer compares with the best choice that costs as much and looks at no input: one mode everywhere, or two at random. "}Brackets are 95 % intervals over units${drawsWords(view)}. ${answers.length > 1 ? "Name the budget before you look: the answers are not corrected for their number." : ""}`),
    state.heroTools);
}

// One line for every allocator and fixed mode at this budget.
function verdictsSection(cell, view, state) {
  const ranked = bestFirst(cell, state.budget, rowsAt(view, state.budget));
  const plain = ["never", "all-full"];
  const chances = new Set(own(ranked).map(chanceOf));
  // The candidate first, as in the answer.
  const answer = answerAt(cell, state.budget);
  const isChosen = (row) => Boolean(answer && row.allocator === answer.candidate);
  const rows = [...own(ranked).sort((a, b) => isChosen(b) - isChosen(a)), ...ranked.filter((row) => isReference(row.allocator) && !plain.includes(row.allocator) && (isFixed(row.allocator) || row.allocator.startsWith("oracle") || chances.has(row.allocator)))];
  const words = (items) => h("ul", { class: "verdicts" }, items.map((row) => h("li", { "data-allocator": row.allocator }, chipOf(row), sentence(row))));
  const spending = own(view.rows).filter((row) => row.spender && !ranked.includes(row));
  const judged = own(ranked);
  // Without an allocator there is nothing to compare.
  if (!judged.length && !spending.length) return null;
  return block("verdicts", "At this budget", null,
    judgedTable(cell, view, rows),
    spending.length ? words(spending) : null,
    judged.length ? folded(`In words (${judged.length})`, words(judged)) : null,
    comparisonWords(view) ? h("p", { class: "note" }, comparisonWords(view)) : null);
}

function judgedTable(cell, view, rows) {
  const has = (name) => rows.some((row) => known(row[name]));
  const right = cell.pictures.some((item) => item.quality_axis.startsWith("right"));
  const unit = rows.find((row) => known(row.convention));
  const money = unit && unit.convention === "usd";
  const bounds = rows.filter((row) => !isReference(row.allocator)).flatMap((row) => [row.lead, row.lead_lo, row.lead_hi]).filter(known);
  const [low, high] = [Math.min(0, ...bounds), Math.max(0, ...bounds)];
  const columns = [
    ["allocator", (row) => nameOf(row)],
    ["answer", (row) => (isReference(row.allocator) ? "" : chipOf(row))],
    has("lead") && ["lead", (row) => (view.stale ? "–" : [leadBar(row, low, high), h("span", {}, row.lead_words || "–")])],
    has("quality") && !view.stale ? [right ? "right" : "reward", (row) => (!known(row.quality) ? "–" : right ? percent(row.quality) : number(row.quality))] : ["gain", (row) => (known(row.gain_share) && !beyond(row.gain_share) ? percent(row.gain_share) : known(row.gain) ? number(row.gain) : "–")],
    has("spend") && ["cost", (row) => (!known(row.spend) ? "–" : !unit ? percent(row.spend) : money ? number(1000 * row.spend, 3) : number(row.spend, 3))],
    ["vs random", (row) => (isReference(row.allocator) ? "" : [against(row, "random") || "–", row.verdict && !row.stale ? ` ${row.verdict_words || row.verdict}` : ""])],
    has("ndg") && ["nDG", (row) => (known(row.ndg) ? number(row.ndg) : "–")],
  ].filter(Boolean);
  const tips = { right: "Right answers.", cost: unit ? `${UNITS[unit.convention] || unit.convention} per ${money ? "1,000 inputs" : "input"}, the cheap mode and its own cost included.` : "Share of the inputs escalated.", ...GLOSSARY };
  const head = columns.map(([name]) => withSorting(h("th", { scope: "col", class: ["allocator", "answer", "lead"].includes(name) ? "words" : null, "data-tip": tips[name] || null }, name)));
  const body = rows.map((row) => h("tr", { class: isReference(row.allocator) ? "reference" : null, "data-name": nameOf(row) },
    columns.map(([name, form], i) => (i ? h("td", { class: `${name === "answer" ? "words" : ""} ${name === "lead" ? "lead-cell" : ""} ${row.stale && ["lead", "vs random"].includes(name) ? "stale" : ""}`.trim() || null }, form(row)) : h("th", { scope: "row", title: row.reason }, form(row))))));
  const filter = h("input", { type: "search", id: "filter", placeholder: "filter by name", "aria-label": "Filter by name" });
  filter.addEventListener("input", () => { for (const line of body) line.hidden = !line.dataset.name.toLowerCase().includes(filter.value.toLowerCase()); });
  return [rows.length > 6 ? h("p", { class: "row filters" }, filter) : null,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Every allocator at this budget" }, h("table", { id: "judged" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)))];
}

// The interval of a lead, drawn in its cell; zero is the best blind choice.
function leadBar(row, low, high) {
  if (!known(row.lead) || isReference(row.allocator)) return null;
  const root = s("svg", { viewBox: "0 0 120 16", class: `lead-bar tone-${toneOf(row)}`, "aria-hidden": "true" });
  const x = linear(low, high, 4, 116);
  root.append(line(x(0), 1, x(0), 15, { class: "axis" }));
  if (known(row.lead_lo) && known(row.lead_hi)) root.append(s("path", { class: "span", d: `M${x(row.lead_lo)} 8H${x(row.lead_hi)}` }));
  root.append(s("circle", { class: "dot", cx: x(row.lead), cy: 8, r: 3.5 }));
  return root;
}

function comparisonWords(view) {
  if (view.comparisons < 2) return "";
  const [names, budgets] = [(row) => row.allocator, budgetKey].map((key) => new Set(own(view.rows).map(key)).size);
  const from = names * budgets === view.comparisons ? ` (${many(names, "allocator")} × ${many(budgets, "budget")})` : "";
  return `${many(view.comparisons, "comparison")} with random${from}, not corrected for their number${view.rows.some((row) => known(row.versus_random_loss_simultaneous_lo)) ? ", but the table has intervals for all rows at once" : ""}.`;
}

function drawsWords(view) {
  const { method, number: n, seed } = view.provenance.draws;
  if (method === "none") return ", of which none were drawn";
  return method === "drawn" ? ` (${many(n, "draw")}, seed ${seed})` : ` (all ${count(n)} draws enumerated)`;
}

function overview(cells, cell, state, choose) {
  const names = [...new Set(cells.flatMap((cell) => own(rowsAt(cell.result, state.budget)).map((row) => row.allocator)))].sort();
  const judged = (cell) => cell.result.rows.some((row) => budgetKey(row) === state.budget);
  const rows = cells.filter(judged).map((other) => h("tr", {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "quiet", onclick: () => choose(CELLS.indexOf(other)), "aria-pressed": String(other === cell) }, groupOf(other))),
    names.map((name) => {
      const row = other.result.rows.find((item) => item.allocator === name && budgetKey(item) === state.budget);
      if (!row) return h("td", {}, h("span", { class: "undefined" }, "not judged"));
      return h("td", { "data-tip": row.lead_words || row.reason }, h("span", { class: toneOf(row) }, row.answer || row.verdict || "undefined"));
    })));
  const budget = cells.flatMap((cell) => cell.result.rows).find((row) => budgetKey(row) === state.budget);
  return block("overview", "All cells at a glance", `The answer on each allocator at ${budget ? budgetLabel(budget) : "this budget"}. Choose a cell to read it.`,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Overview of cells" }, h("table", { class: "overview" }, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "words" }, "cell"), names.map((name) => h("th", { scope: "col", style: "text-align: center" }, name)))), h("tbody", {}, rows))));
}

function byInput({ inputs, concentration: { half_inputs: few, half_inputs_share: part } }) {
  return known(few) ? `, and ${count(few)} of ${count(inputs)} inputs ${few === 1 ? "has" : "have"} ${percent(part)}` : "";
}

function signBar(setting) {
  const harmed = setting.harm_rate === null ? 0 : Math.round(setting.affected * setting.harm_rate);
  const helped = setting.affected - harmed;
  const parts = [["helped", helped], ["unaffected", setting.inputs - setting.affected], ["harmed", harmed]];
  const colour = { helped: HELPED, unaffected: "var(--even)", harmed: HARMED };
  return [h("div", { class: "signbar", role: "img", "aria-label": parts.map(([name, n]) => `${n} inputs ${name}`).join(", ") }, parts.map(([name, n]) => h("span", { style: `flex: ${n}; background: ${colour[name]}`, "data-tip": `${name}: ${n}` }))),
    legendOf(parts.map(([name, n]) => [`${name} ${count(n)} (${percent(n / setting.inputs)})`, colour[name]]))];
}

function signs(cell, view) {
  const { setting, stale } = view;
  const { harm_ratio: ratio, harm_rate: rate, concentration: spread } = setting;
  const best = setting.budgets.find((item) => item.alpha === 0.2) || setting.budgets[0];
  const effective = number(spread.effective_units ?? 0, 1);
  const fact = (name, value, detail) => h("div", {}, h("dt", {}, name), h("dd", {}, value), detail && h("dd", {}, h("small", {}, detail)));
  const orNot = (value, form) => (value === null ? h("span", { class: "undefined" }, "undefined") : form(value));
  return block("sign", "How much is there to gain?", ["The ", term("decision value"), " of an input is the loss under the cheap mode minus the loss under the full mode. It has a sign: more compute can make a decision worse."],
    signBar(setting),
    h("dl", { class: "facts num" },
      fact("harm ratio", orNot(ratio, (v) => number(v, 3)), ratio === null ? "nothing is helped" : `${number(ratio, 2)} lost for every 1 gained`),
      fact("harm rate", orNot(rate, percent), rate === null ? "no input is affected" : "of the affected inputs"),
      fact("escalate everything", orNot(setting.all_full_share, percent), "of the all-cheap loss removed"),
      stale ? null : fact(`oracle at ${share(best.alpha)}`, orNot(best.oracle_share, percent), `${best.budget_binds ? "more than" : "at most"} ${share(best.alpha)} of the inputs are worth escalating`),
      fact("all-cheap loss", count(Number(setting.cheap_loss.toPrecision(5))), `of ${many(setting.inputs, "input")}`)),
    spread.top_unit === null || stale ? null : h("p", { class: "note" }, `The possible gain comes from about ${effective} ${effective === "1.0" ? "unit" : "units"}; the largest (unit ${spread.top_unit}) has ${percent(spread.top_share)} of it${byInput(setting)}.`));
}

const pair = (name, colour) => ({ name, colour });
const HELPED = "var(--helped)";
const HARMED = "var(--harmed)";
const UNSURE = "var(--unsure)";
const INK = "var(--ink)";

// Differences with random and their intervals; `kind` names the series of a row.
function forest(id, rows, kind, others) {
  const marks = (row) => [{ mark: "rule", series: kind(row), low: row.versus_random_lo, high: row.versus_random_hi }, { mark: "point", series: kind(row), at: row.versus_random, open: row.open, shape: row.shape, column: "points" }];
  const against = listed([...new Set(rows.map(chanceOf))]);
  return chart({ id, kind: "rows", rows, marks, unit: 100, tick: (v) => signed(v, Number.isInteger(Number((100 * v).toFixed(4))) ? 0 : 1), axis: `points against ${against} at this budget; 1 point = 1 % of the loss with the cheap mode alone; right is better`, note: (row) => (known(row.versus_random) ? "" : `${row.verdict || "undefined"}: ${row.reason || ""}`), ...others });
}

function curves(cell, view, state) {
  const names = bestFirst(cell, state.budget, view.curves).filter((curve) => !isReference(curve.allocator)).map((curve) => curve.allocator);
  if (!["", "all", ...names].includes(state.band)) state.band = names.length > 4 ? names[0] : "all";
  const beside = new Set(own(view.rows).flatMap((row) => [row.chance, row.oracle]));
  const lines = view.curves.filter((curve) => !isReference(curve.allocator) || beside.has(curve.allocator)).map((curve) => {
    const { allocator } = curve;
    const plain = isReference(allocator);
    const style = plain ? { colour: "var(--reference)", dash: allocator.startsWith("random") ? "5 4" : "1.5 4", plain } : state.styles[allocator];
    return { ...curve, ...style, name: plain && beside.has(`${allocator}-ladder`) ? `${allocator}, full only` : allocator, band: !plain && ["all", allocator].includes(state.band) };
  });
  if (!view.curves.length || lines.every((item) => item.gain_share.every((v) => v === null))) return null;
  const budget = view.rows.find((row) => budgetKey(row) === state.budget);
  const choice = h("select", { id: "band" }, [["all", "every allocator"], ...names.map((name) => [name, name]), ["", "none"]].map(optionOf));
  choice.value = state.band;
  choice.addEventListener("change", () => { state.band = choice.value; state.again("gains"); byId("band").focus(); state.remember(); });
  return block("gain", "Over all budgets", "Share of the all-cheap loss that is removed, with bands of 95 %. All lines meet at never (left) and always (right).",
    h("p", { class: "row filters" }, h("label", { for: "band", class: "lead" }, "Band of"), choice),
    chart({ id: "gain", kind: "curve", label: "Gain against the share of inputs escalated, one line per allocator with its 95 % interval", axis: "inputs escalated, %", upAxis: "gain, % of the all-cheap loss", unit: 100, lines, series: lines, stale: view.stale, points: budget && budget.kind === "selection" ? [budget.alpha] : [] }));
}

function benefitAndHarm(cell, view, state) {
  // The references that the verdicts use, and no other.
  const beside = new Set([...(cell.result.effect ? ["all-full"] : []), ...own(rowsAt(view, state.budget)).flatMap((row) => [row.chance || "random", row.oracle || "oracle"])]);
  const rows = bestFirst(cell, state.budget, rowsAt(view, state.budget)).filter((row) => !isReference(row.allocator) || isFixed(row.allocator) || beside.has(row.allocator)).map((row) => ({ ...row, name: `${nameOf(row)}${beside.has(`${row.allocator}-ladder`) ? ", full only" : ""}` }));
  const per = (row, value) => (known(value) && row.cheap_loss > 0 ? value / row.cheap_loss : null);
  const marks = (row) => {
    const soft = isReference(row.allocator) ? 0.45 : 1;
    return [{ mark: "bar", series: "benefit", low: 0, high: per(row, row.benefit), soft }, { mark: "bar", series: "harm", low: 0, high: known(row.harm) ? -per(row, row.harm) : null, soft }, { mark: "tick", series: "gain", at: per(row, row.gain) }];
  };
  return block("harm", "Benefit and harm", "Benefit is the value of the helped inputs that are escalated, harm that of the harmed ones. The dark tick is the difference: the gain.", chart({
    id: "benefit-and-harm", kind: "rows", rows, marks, unit: 100, label: "Benefit and harm of what every allocator escalates", tick: (v) => number(100 * Math.abs(v), 0), axis: "harm ← % of the all-cheap loss → benefit", valueRoom: 130,
    valueText: (row) => (known(per(row, row.gain)) ? `net ${signed(per(row, row.gain))}` : ""), note: (row) => (known(per(row, row.benefit)) ? "" : row.reason || "undefined"),
    series: [pair("benefit", HELPED), pair("harm", HARMED), pair("gain", INK)],
  }));
}

function charged(cell, view, state) {
  const measured = [...new Map(view.rows.filter((row) => row.kind !== "selection" && !row.spender).map((row) => [budgetKey(row), row])).values()];
  const charts = measured.map((first) => {
    const free = (row) => (view.rows.find((other) => other.allocator === row.allocator && other.kind === "selection" && other.alpha === row.alpha) || {}).gain_share;
    const rows = own(rowsAt(view, budgetKey(first))).map((row) => ({ ...row, name: row.allocator, free: free(row) }));
    if (!rows.some((row) => known(row.free))) return null;
    const unit = UNITS[first.convention] || first.convention;
    return [first, chart({
      id: `cost-${budgetKey(first).replace(/[^a-z0-9]+/g, "-")}`, kind: "rows", rows, unit: 100, label: `Gain free and charged at ${budgetLabel(first)}`, tick: (v) => number(100 * v, 0), axis: "gain, % of the all-cheap loss", valueRoom: 170,
      marks: (row) => [{ mark: "rule", series: "its cost", low: row.free, high: row.gain_share, plain: true }, { mark: "point", series: "without its cost", at: row.free, open: true }, { mark: "point", series: "with its cost", at: row.gain_share }],
      valueText: (row) => (!known(row.gain_share) && known(row.free) ? "cannot pay for itself" : known(row.cost) ? `costs ${Number(row.cost.toPrecision(4))} ${unit}` : ""),
      note: (row) => (known(row.gain_share) || known(row.free) ? "" : row.reason || "undefined"),
      series: [pair("without its cost", UNSURE), pair("with its cost", INK), pair("its cost", HARMED)],
      extra: (row) => ({ [`cost, ${unit}`]: known(row.cost) ? row.cost : "undefined", slots: known(row.slots) ? row.slots : "undefined", why: row.reason || "" }),
    })];
  });
  // The chart of the chosen share is open, the others are folded.
  const pairs = charts.filter(Boolean);
  const open = pairs.find(([first]) => String(first.alpha) === state.budget.split("|")[1]) || pairs[0];
  return open && block("charged", "With and without its own cost", "An allocator pays for its own computation from the budget, so fewer inputs can be escalated. Open: gain without its cost; filled: with it.", h("h3", {}, budgetLabel(open[0])), open[1], pairs.filter((item) => item !== open).map(([first, node]) => folded(budgetLabel(first), node)));
}

function gapSplit(cell, view, state) {
  const rows = bestFirst(cell, state.budget, view.gaps.filter((gap) => budgetKey(gap) === state.budget)).map((gap) => ({ ...gap, name: gap.allocator }));
  if (!rows.some((row) => row.gap !== null)) return null;
  const loss = view.setting.cheap_loss;
  const per = (value) => (known(value) && loss > 0 ? value / loss : null);
  const causal = rows.some((row) => known(row.causal));
  const series = [pair("overhead", "var(--part0)"), pair("ranking", "var(--part1)"), ...(causal ? [pair("causal", "var(--part2)")] : [])];
  // Parts above zero are stacked to the right, parts below to the left.
  const marks = (row) => {
    const ends = [0, 0];
    return series.map(({ name }) => {
      const value = per(row[name]) || 0;
      const side = Number(value < 0);
      ends[side] += value;
      return { mark: "bar", series: name, low: ends[side] - value, high: ends[side], tip: `${name}: ${percent(value)}` };
    });
  };
  return block("gap", "Why it gains less than the oracle", "The gap between an allocator and the oracle has three causes: its own cost (overhead), errors of its ranking, and decisions without hindsight (causal).", folded("Show the chart", chart({
    id: "gap", kind: "rows", rows, marks, series, unit: 100, label: "Gap to the oracle by cause", tick: (v) => number(100 * v, 0), axis: "% of the all-cheap loss short of the oracle", valueRoom: 110,
    valueText: (row) => (known(per(row.gap)) ? `gap ${percent(per(row.gap))}` : ""), note: (row) => (known(per(row.gap)) ? "" : row.reason || "undefined"),
  })));
}

function streamsSection(cell, view, state) {
  const rows = bestFirst(cell, state.budget, view.streams.filter((row) => budgetKey(row) === state.budget)).map((row) => ({ ...row, name: `${row.allocator} · ${row.policy}`, stale: Boolean(view.stale), open: row.rate_missed }));
  if (!rows.length) return null;
  const kept = (row) => (row.rate_missed === null ? "undefined" : row.rate_missed ? "missed" : "kept");
  return block("streams", "Decisions input by input", "A stream cannot be ranked in hindsight: these policies decide input by input and are calibrated on other units. Open dots missed the rate of the budget by more than 5 points, so their gain belongs to another budget.",
    forest("streams", rows, (row) => (row.stale ? "not judged yet" : { better: "better", worse: "worse" }[row.verdict] || "not told apart"), {
      label: "Causal policies against random", stale: view.stale,
      series: view.stale ? [pair("not judged yet", UNSURE)] : [pair("better", HELPED), pair("worse", HARMED), pair("not told apart", UNSURE)],
      valueText: (row) => (known(row.rate) ? `rate ${percent(row.rate)}, ${kept(row)}` : ""), extra: (row) => ({ rate: percent(row.rate), kept: kept(row), verdict: row.verdict || "" }),
    }));
}

function unitsSection(cell, view) {
  if (!view.units.length) return null;
  const byUnit = new Map(view.units.map((item) => [item.unit, { ...Object.fromEntries(Object.entries(item.modes || {}).map(([mode, gain]) => [`${ALWAYS_MODE}${mode}`, gain])), ...item.gains, oracle: item.oracle_gain }]));
  const value = (unit, name) => byUnit.get(unit)[name];
  return block("units", "Unit by unit", "Gain in every unit at the headline budget, in units of the loss. Colours end where nine in ten cells do; the numbers are whole.", chart({
    id: "units", kind: "heat", label: `Gain by unit at ${share(view.units[0].alpha)}`, axis: "allocators and fixed modes", value, names: Object.keys(byUnit.get(view.units[0].unit)),
    units: [...view.units].sort((a, b) => b.oracle_gain - a.oracle_gain).map((unit) => unit.unit), series: [pair("gain", HELPED), pair("loss", HARMED), pair("nothing", "var(--even-wash)")],
  }));
}

function tablesSection(cell, view) {
  const whole = h("div", { class: "table-tools" },
    h("button", { type: "button", id: "save-all-csv", onclick: () => saveFile(`${cell.name}.csv`, cell.csv, "text/csv") }, "Save every row, unrounded, as CSV"),
    h("button", { type: "button", id: "save-all-latex", onclick: () => saveFile(`${cell.name}.tex`, cell.latex + cell.tables.map((table) => table.latex).join("\n") + "\n", "text/x-tex") }, "Save all tables as LaTeX"));
  return block("tables", "All tables", "Every column. Asterisk: worse than random. Press a heading to sort by it.", cell.tables.map((table, i) => folded(table.title, resultTable(cell, table, view, i))), whole,
    view.stale ? h("p", { class: "note" }, "The files hold the result as judged, not the weights chosen above.") : null);
}

function source(cell, view) {
  const { provenance } = view;
  const rows = [["deepval", provenance.deepval], ["table", provenance.table], ...Object.entries(provenance.scores).map(([name, item]) => [`scores of ${name}`, `${item.digest} (coverage ${percent(item.coverage)})`]), ["units judged", provenance.units.join(", ")], ["calibration units", provenance.calibration_units ? provenance.calibration_units.join(", ") : "none"], ...(provenance.cell || cell.frames ? [["cell", provenance.cell || cell.frames.cell]] : []), ...(provenance.split ? [["split", provenance.split]] : [])];
  return block("source", "Where this comes from", "SHA-256 of what was judged. The same inputs give the same result, byte for byte.",
    folded("Digests and units", h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "words", style: "white-space: normal; overflow-wrap: anywhere" }, value))))))));
}

function glossary() {
  return block("glossary", "Words", null, folded("Every word of this page", h("dl", { class: "words-list" }, Object.entries(GLOSSARY).map(([name, words]) => h("div", {}, h("dt", {}, name), h("dd", {}, words))))));
}
