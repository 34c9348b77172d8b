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
  const judged = new Map(rowsAt(cell.result, key).map((row) => [row.allocator, row.versus_random]));
  const value = (item) => judged.get(item.allocator) ?? null;
  const place = (item) => (["random", "random-ladder"].includes(item.allocator) ? 0 : ["never", "all-full"].includes(item.allocator) ? 1 : isReference(item.allocator) ? 3 : 2);
  const falling = (a, b) => (a === null || b === null ? compared(a, b) : b - a);
  return [...items].sort((a, b) => place(a) - place(b) || falling(value(a), value(b)));
}

const judgedRows = (cell, view, state) => bestFirst(cell, state.budget, own(rowsAt(view, state.budget)));

function chipOf(row) {
  const how = standing(row);
  const words = { stale: "not judged yet", weak: "uncertain", never: "never is better", always: "always is better", unpaid: "not shown to pay" };
  return h("span", { class: `chip ${UNIFORM.includes(how) ? "worse" : how}`, title: row.answer || row.verdict_words }, words[how] || how || row.verdict_words || "no verdict");
}

const against = (row, name) => {
  const inLoss = row.versus_random_unit === "loss";
  const key = `versus_${name}${inLoss ? "_loss" : ""}`;
  const form = inLoss ? (v) => number(v) : (v) => signed(v);
  const around = row.stale ? "" : ` ${span(row[`${key}_lo`], row[`${key}_hi`], form) || "(no interval)"}`;
  return known(row[key]) ? `${form(row[key])} ${inLoss ? "in units of the loss" : "points"}${around}` : "";
};

const spanOf = (row, key, digits) => span(row[`${key}_lo`], row[`${key}_hi`], (v) => signed(v, digits));
const UNIFORM = ["never", "always"];

// The price-blind mixture of several models is named by what it does.
const chanceWords = (row) => (chanceOf(row) === "random-ladder" ? "the best blind mixture of models" : chanceOf(row));

// A verdict in one sentence.
function sentence(row) {
  const at = budgetLabel(row);
  const name = h("strong", {}, row.allocator);
  if (row.verdict === "infeasible" || row.gain === null) return h("p", {}, name, ` has no value at ${at}: ${row.reason || "undefined"}.`);
  const judged = row.stale ? "" : ` is ${row.answer || row.verdict_words || "without a verdict"}`;
  const gain = row.gain_share === null || beyond(row.gain_share) ? `gain ${Number(row.gain.toPrecision(3))} in units of the loss` : `gain ${percent(row.gain_share)} of the all-cheap loss`;
  const [chance, never] = ["random", "never"].map((other) => against(row, other));
  const numbers = chance ? `${chance} against ${chanceWords(row)}${never && `, ${never.replace(" points", "")} against never escalating`}` : row.reason || "no value";
  const second = row.stale || !row.second_verdict || row.second_verdict === row.verdict ? "" : `; second opinion: ${row.second_verdict} ${spanOf(row, "versus_random_second")}`;
  return h("p", {}, name, ` at ${at}${row.spender ? "," : ""}${judged}: `, h("span", { class: "num" }, `${gain}; ${numbers}${second}. ${row.guarantees}`));
}

// What a unit is in data sets that are known to be real, or simulated.
const UNIT_WORDS = { synthetic: "scene", kitti: "drive", nuscenes: "scene", nuplan: "log" };
const datasetOf = (cell) => cell.frames?.dataset || (cell.result.provenance.cell || "").split("-")[0];
const unitWord = (cell) => UNIT_WORDS[datasetOf(cell)] || "unit";

// What speaks against a verdict of better, each with its figure.
function doubts(cell, view, row) {
  const { units, concentration } = view.setting;
  const unit = unitWord(cell);
  const found = [];
  if ((row.verdict_words || "").includes(" on few units")) found.push(`what can be gained lies in about ${number(concentration.effective_units, 1)} of ${many(units, unit)}`);
  const part = view.units.find((item) => item.unit === row.rests_on && item.alpha === row.alpha && row.kind === "selection" && row.gain > 0);
  if (known(row.rests_on)) found.push(`it rests on ${unit} ${row.rests_on}${part ? ` (${percent(part.gains[row.allocator] / row.gain, 0)} of the gain)` : ""}, without which it is not shown`);
  if (row.second_verdict && row.second_verdict !== "better") found.push(`the second opinion, a wider interval, ${row.second_verdict === "worse" ? "says worse" : "includes zero"}: ${spanOf(row, "versus_random_second")}`);
  return found.length ? `Doubts: ${found.join("; ")}.` : "";
}

// What the full mode does where it always runs, and how much of that gain a row keeps.
function alwaysWords(view, row, full) {
  const { versus_never: gain, versus_never_lo: low, versus_never_hi: high } = view.rows.find((item) => item.allocator === "all-full" && budgetKey(item) === budgetKey(row)) || {};
  if (!known(gain) || !known(low) || beyond(gain)) return {};
  const itself = ` The expensive ${full} itself ${low > 0 ? "helps" : high < 0 ? "harms" : "is not shown to help"}: always running it ${gain < 0 ? "adds" : "removes"} ${percent(Math.abs(gain))} of the loss.`;
  return { itself, keeps: low > 0 && row.gain_share > 0 ? `It keeps ${percent(row.gain_share / gain, 0)} of the gain of always running ${full}, with ${percent(row.escalated / row.inputs, 0)} of the runs.` : "" };
}

// The decision in one sentence, what stands below it, and its row. Settled: nothing speaks against it.
function answerOf(cell, view, rows) {
  const at = `${share(rows[0].alpha)}${{ latency: " of the time", energy: " of the energy", money: " of the money" }[rows[0].kind] || ""}`;
  if (rows[0].stale) return { words: `With other loss weights, at ${at}: the values below are exact, the verdicts need the command.` };
  const row = ["better", "weak", "unpaid"].map((how) => rows.find((item) => standing(item) === how)).find(Boolean) || rows.find((item) => known(item.versus_random ?? item.versus_random_loss));
  if (!row) return { words: `${rows[0].allocator} has no value at ${at}: ${rows[0].reason || "undefined"}.` };
  const [how, full, name] = [standing(row), view.setting.modes.at(-1), row.allocator];
  const blind = chanceOf(row) === "random" ? "choosing at random" : chanceWords(row);
  const chance = `${against(row, "random")} against ${blind}`;
  const never = against(row, "never") && `${against(row, "never").replace(" points", "")} against never running ${full}.`;
  const { itself = "", keeps = "" } = alwaysWords(view, row, full);
  if (how === "better") return { row, settled: true, words: `Run ${name} at ${at}: ${chance}.`, more: [never, keeps] };
  if (how === "weak" || how === "unpaid") return { row, words: `Not settled: ${name} at ${at} may be worth it: ${chance}.`, more: [how === "unpaid" ? `Not shown to pay: ${never}` : never, keeps, doubts(cell, view, row)] };
  const more = [`${chance}${never ? `; ${never}` : "."}`];
  if (how === "unresolved") return { row, more, words: `Not shown: choosing ${at} by ${name} may be no better than ${blind}.${itself}` };
  return { row, more, harmful: true, words: `No: ${how === "worse" ? `choosing ${at} by ${name} is worse than ${blind}` : `${how} running ${full} is better than choosing ${at} by ${name}`}.${itself}` };
}

const driving = (cell) => Boolean((cell.frames && !cell.frames.rows) || cell.result.provenance.cell);

// The data in one line.
function dataLine(cell, view, row) {
  const { modes, inputs, units } = view.setting;
  const name = datasetOf(cell);
  const unit = unitWord(cell);
  const kind = name === "synthetic" ? "Simulated data" : name ? `${UNIT_WORDS[name] ? "Real data" : "Data"} (${name})` : "A table of losses";
  return h("p", { class: "kicker" }, h("strong", {}, kind), UNIT_WORDS[name] ? "" : ", real or simulated is not stated", cell.name === name ? "" : ` · ${cell.name}`,
    ` · ${many(inputs, "input")} in ${units} `, term("unit", `${unit}${units === 1 ? "" : "s"}`), unit === "unit" ? " (groups)" : "",
    ` · ${["cheap", ...modes.slice(0, -1)].join(" → ").replace(" →", "")} → expensive ${modes.at(-1)} · budget ${row.kind === "selection" && !row.spender ? `${share(row.alpha)} of the inputs` : budgetLabel(row)}`, cell.date ? ` · judged ${cell.date}` : "");
}

// What would settle it, then the router; the router alone if it is settled, none if it harms.
function nextSteps(cell, { row, settled, harmful }) {
  const { provenance } = cell.result;
  const files = provenance.files || {};
  const command = (name, ...more) => commandLines([`deepval ${name} ${quoted(files.values || (provenance.cell ? "CELL" : "VALUES"))}`, ...(files.options || "").split("\n").filter((word) => word && !(name === "threshold" && word.startsWith("--units="))).map(quoted), ...more]);
  if (!row || row.spender) return [["See how many units would settle it, and what decides here:", command("diagnose", "--resolve 0.02")]];
  const file = (row.allocator !== "values" && files[row.allocator]) || (provenance.cell ? row.allocator : "SCORES");
  const costs = provenance.cell || (files.options || "").includes("--costs=") ? "" : "--costs COSTS";
  const rails = ["mj_gpu", "mj_all"].includes(row.convention) ? `--rails ${row.convention}` : "";
  const budget = [`-s ${quoted(file)}`, `--alpha ${row.alpha}`, ...(row.kind === "selection" ? [] : [costs, `--budget ${row.kind}`, rails, row.accounting === "skipping" ? "--skipping" : ""])];
  const size = Math.abs(row.versus_random) < 0.005 ? 0.02 : Number(Math.abs(row.versus_random).toPrecision(2));
  const check = [`First: how many ${unitWord(cell)}s would settle it (${Number((100 * size).toPrecision(2))} points)?`, command("diagnose", ...budget, `--resolve ${size}`)];
  const run = [settled ? "Choose its threshold, and write its router:" : "Or run it anyway: its threshold and router.", command("threshold", ...budget, "--out router.json")];
  return settled ? [run] : harmful ? [check] : [check, run];
}

function hero(cell, view, state) {
  const rows = judgedRows(cell, view, state);
  const { setting } = view;
  const full = setting.modes.at(-1);
  const answer = rows.length ? answerOf(cell, view, rows) : { words: "No allocator was judged." };
  const words = h("p", { class: "note" });
  const node = h("section", { class: "hero", id: "verdict", "aria-label": "Verdict" },
    dataLine(cell, view, rows[0] || view.rows[0]),
    h("h1", {}, answer.words),
    answer.more && h("p", { class: "below" }, [...answer.more, answer.row.guarantees].filter(Boolean).join(" ")),
    h("div", { class: "first" },
      h("div", {}, rows.length ? differences(cell, view, state, answer.row) : null),
      h("div", {}, h("h3", {}, `Does ${full} help or harm${setting.modes.length > 2 ? ` against ${setting.modes[0]}` : ""}?`), signBar(setting),
        h("p", { class: "small" }, `Counted: inputs whose loss falls or rises with ${full}.`),
        h("h3", {}, "What next"), nextSteps(cell, answer).map(([why, command], i) => [h("p", {}, why), h("pre", { class: "command", id: i ? "then" : "next", tabindex: "0" }, command)]), words)));
  const said = [...node.querySelectorAll("p, h1, h3, .legend")].map((item) => item.textContent).join(" ");
  const used = Object.keys(GLOSSARY).filter((name) => new RegExp(`\\b${name}s?\\b`).test(said) || (name === "interval" && said.includes("[")));
  return fill(words, {}, ["Words: ", used.map((name, i) => [i ? ", " : "", term(name)]), "; ", h("a", { href: "#glossary", onclick: jump }, "all words"), "."]) && node;
}

// Every verdict as a sentence, and what it rests on.
function verdictsSection(cell, view, state) {
  const rows = judgedRows(cell, view, state);
  const verdicts = (items) => h("ul", { class: "verdicts" }, items.map((row) => h("li", { "data-allocator": row.allocator }, chipOf(row), sentence(row))));
  const spending = own(view.rows).filter((row) => row.spender && !rows.includes(row));
  return h("section", { class: "plain", id: "verdicts", "aria-label": "Verdicts" },
    view.warnings.map((warning) => h("p", { class: "note warn" }, warning)),
    spending.length ? verdicts(spending) : null,
    folded(`Every verdict in words (${rows.length})`, verdicts(rows)),
    h("p", { class: "note" }, `${comparisonWords(view)}Brackets are 95 % intervals over units${drawsWords(view)}.`));
}

function comparisonWords(view) {
  if (view.comparisons < 2) return "";
  const [names, budgets] = [(row) => row.allocator, budgetKey].map((key) => new Set(own(view.rows).map(key)).size);
  const from = names * budgets === view.comparisons ? ` (${many(names, "allocator")} × ${many(budgets, "budget")})` : "";
  return `${many(view.comparisons, "comparison")} with random${from}, not corrected for their number${view.rows.some((row) => known(row.versus_random_loss_simultaneous_lo)) ? ", but the table has intervals for all rows at once" : ""}. `;
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
      if (row.versus_random === null) return h("td", {}, h("span", { class: "undefined", title: row.reason }, row.verdict || row.verdict_words || "undefined"));
      return h("td", { "data-tip": `${row.answer || row.verdict}\n${spanOf(row, "versus_random")}` }, h("span", { class: markOf(row) }, `${signed(row.versus_random)}${row.verdict === "worse" ? "*" : ""}`));
    })));
  const budget = cells.flatMap((cell) => cell.result.rows).find((row) => budgetKey(row) === state.budget);
  return block("overview", "All cells at a glance", `As judged: points against random at ${budget ? budgetLabel(budget) : "this budget"}. Blue: worth it, and nothing speaks against it; orange, with an asterisk: worse. Choose a cell to read below.`,
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
const DOUBTED = "var(--doubted)";

// Differences with random and their intervals; `kind` names the series of a row.
function forest(id, rows, kind, others) {
  const marks = (row) => [{ mark: "rule", series: kind(row), low: row.versus_random_lo, high: row.versus_random_hi }, { mark: "point", series: kind(row), at: row.versus_random, open: row.open, shape: row.shape, column: "points" }];
  const against = listed([...new Set(rows.map(chanceOf))]);
  return chart({ id, kind: "rows", rows, marks, unit: 100, tick: (v) => signed(v, Number.isInteger(Number((100 * v).toFixed(4))) ? 0 : 1), axis: `points against ${against} at this budget; 1 point = 1 % of the loss with the cheap mode alone; right is better`, note: (row) => (known(row.versus_random) ? "" : `${row.verdict || "undefined"}: ${row.reason || ""}`), ...others });
}

function differences(cell, view, state, chosen) {
  const judged = judgedRows(cell, view, state);
  const uniformRow = (row) => UNIFORM.includes(row.allocator);
  const beaten = judged.some((row) => UNIFORM.includes(standing(row))) ? "worse than random, never or always" : "worse than random";
  const names = { better: "worth it", weak: "uncertain", unpaid: "uncertain", worse: beaten, never: beaten, always: beaten };
  const even = "no clear difference from random";
  const kind = (row) => (row.stale ? "not judged yet" : uniformRow(row) ? "for comparison" : names[standing(row)] || even);
  const rows = [...judged, ...uniform(view, state, judged)].map((row) => ({ ...row, name: uniformRow(row) ? `${row.allocator} (${row.allocator === "never" ? 0 : 100}\u2009%)` : row.allocator, bold: chosen && row.allocator === chosen.allocator }));
  for (const row of rows) Object.assign(row, { open: [even, "uncertain"].includes(kind(row)), shape: uniformRow(row) ? "square" : null });
  return forest("versus-random", rows, kind, {
    label: "Difference with random of every allocator with its 95 % interval", stale: view.stale, valueRoom: 165,
    series: view.stale ? [pair("not judged yet", UNSURE)] : [pair("worth it", HELPED), pair("uncertain", DOUBTED), pair(beaten, HARMED), pair(even, UNSURE), pair("for comparison", INK)],
    valueText: (row) => (known(row.versus_random) ? `${signed(row.versus_random)}${row.stale ? "" : ` ${spanOf(row, "versus_random")}`}` : ""),
    extra: (row) => (row.stale ? {} : { "second opinion": row.second_verdict || "", "second 95 %": spanOf(row, "versus_random_second", 2), verdict: row.verdict_words || row.verdict || "" }),
  });
}

// Never and always against random: its own differences with them, reversed.
function uniform(view, state, judged) {
  const base = judged.length ? rowsAt(view, state.budget).find((row) => row.allocator === chanceOf(judged[0])) : null;
  if (!base || !known(base.gain_share)) return [];
  const turned = (value) => (known(value) && !view.stale ? -value : null);
  return [["never", 0], ["always", view.setting.all_full_share]].map(([allocator, gain]) => ({ allocator, chance: base.allocator, stale: view.stale, versus_random: gain - base.gain_share, versus_random_lo: turned(base[`versus_${allocator}_hi`]), versus_random_hi: turned(base[`versus_${allocator}_lo`]) }));
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
  const beside = new Set(["never", "all-full", ...own(rowsAt(view, state.budget)).flatMap((row) => [row.chance || "random", row.oracle || "oracle"])]);
  const rows = bestFirst(cell, state.budget, rowsAt(view, state.budget)).filter((row) => !isReference(row.allocator) || beside.has(row.allocator)).map((row) => ({ ...row, name: `${nameOf(row)}${beside.has(`${row.allocator}-ladder`) ? ", full only" : ""}` }));
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
  const value = (unit, name) => { const { gains, oracle_gain: oracle } = view.units.find((item) => item.unit === unit); return { ...gains, oracle }[name]; };
  return block("units", "Unit by unit", "Gain of each allocator by unit at the headline budget, in units of the loss. A verdict that depends on one unit is weak.", chart({
    id: "units", kind: "heat", label: `Gain by unit at ${share(view.units[0].alpha)}`, axis: "allocator", value, names: [...Object.keys(view.units[0].gains), "oracle"],
    units: [...view.units].sort((a, b) => b.oracle_gain - a.oracle_gain).map((unit) => unit.unit), series: [pair("gain", HELPED), pair("loss", HARMED), pair("nothing", "var(--even-wash)")],
  }));
}

function tablesSection(cell, view) {
  const whole = h("div", { class: "table-tools" },
    h("button", { type: "button", id: "save-all-csv", onclick: () => saveFile(`${cell.name}.csv`, cell.csv, "text/csv") }, "Save every row, unrounded, as CSV"),
    h("button", { type: "button", id: "save-all-latex", onclick: () => saveFile(`${cell.name}.tex`, cell.latex + cell.tables.map((table) => table.latex).join("\n") + "\n", "text/x-tex") }, "Save all tables as LaTeX"));
  return block("tables", "All tables", "Blue: better than random, and neither never nor always escalating is better; asterisk: worse than random. Press a heading to sort by it.", cell.tables.map((table, i) => folded(table.title, resultTable(cell, table, view, i))), whole,
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
