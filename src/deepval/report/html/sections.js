// One function per section: (cell, view, state) -> element. `view` is the result, or the result under other weights.

const absent = (...what) => h("p", { class: "absent" }, "Not measured: ", ...what);
const code = (content) => h("code", {}, content);

function block(id, title, lead, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), lead ? h("p", { class: "lead" }, lead) : null, ...children);
}

function legendOf(items) {
  return h("ul", { class: "legend" }, items.map(([name, colour, stroke]) =>
    h("li", {}, h("i", { class: stroke ? "stroke" : null, style: stroke ? `border-color: ${colour}; border-top-style: ${stroke}` : `background: ${colour}` }), name)));
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

// Allocators by what the result says of them at a budget, the best first; the order stays while sliders move.
function bestFirst(cell, key, items) {
  const judged = new Map(rowsAt(cell.result, key).map((row) => [row.allocator, row.versus_random]));
  const value = (item) => (known(judged.get(item.allocator)) ? judged.get(item.allocator) : null);
  const place = (item) => (["random", "random-ladder"].includes(item.allocator) ? 0 : ["never", "all-full"].includes(item.allocator) ? 1 : isReference(item.allocator) ? 3 : 2);
  const falling = (a, b) => (a === null || b === null ? compared(a, b) : b - a);
  return [...items].sort((a, b) => place(a) - place(b) || falling(value(a), value(b)));
}

function chipOf(row) {
  const how = standing(row);
  const words = { stale: "not judged yet", weak: "uncertain", never: "never is better", always: "always is better", unpaid: "not shown to pay" };
  return h("span", { class: `chip ${["never", "always"].includes(how) ? "worse" : how}`, title: row.answer || row.verdict_words }, words[how] || how || row.verdict_words || "no verdict");
}

const against = (row, name) => {
  const inLoss = row.versus_random_unit === "loss";
  const key = `versus_${name}${inLoss ? "_loss" : ""}`;
  const form = inLoss ? (v) => number(v) : (v) => signed(v);
  const around = row.stale ? "" : ` ${span(row[`${key}_lo`], row[`${key}_hi`], form) || "(no interval)"}`;
  return known(row[key]) ? `${form(row[key])} ${inLoss ? "in units of the loss" : "points"}${around}` : "";
};

// The price-blind mixture of several models is named by what it does.
const chanceWords = (row) => (chanceOf(row) === "random-ladder" ? "the best blind mixture of models" : chanceOf(row));

function numbersOf(row) {
  const [chance, never] = ["random", "never"].map((name) => against(row, name));
  return chance ? `${chance} against ${chanceWords(row)}${never ? `, ${never.replace(" points", "")} against never escalating` : ""}` : row.reason || "no value";
}

// A verdict in one sentence: what was judged, the answer, the gain, the differences, the second opinion where it says something else.
function sentence(row) {
  const at = budgetLabel(row);
  const name = h("strong", {}, row.allocator);
  if (row.verdict === "infeasible" || row.gain === null) return h("p", {}, name, ` has no value at ${at}: ${row.reason || "undefined"}.`);
  const judged = row.stale ? "" : ` is ${row.answer || row.verdict_words || "without a verdict"}`;
  const gain = row.gain_share === null || beyond(row.gain_share) ? `gain ${Number(row.gain.toPrecision(3))} in units of the loss` : `gain ${percent(row.gain_share)} of the all-cheap loss`;
  const second = row.stale || !row.second_verdict || row.second_verdict === row.verdict ? "" : `; second opinion: ${row.second_verdict} ${span(row.versus_random_second_lo, row.versus_random_second_hi, (v) => signed(v))}`;
  return h("p", {}, name, ` at ${at}${row.spender ? "," : ""}${judged}: `, h("span", { class: "num" }, `${gain}; ${numbersOf(row)}${second}.`));
}

// What speaks against a verdict of better.
function doubts(row) {
  const few = (row.verdict_words || "").includes(" on few units") ? ["the gain comes from few units"] : [];
  const rests = known(row.rests_on) ? [`it rests on ${row.rests_on}`] : [];
  return listed([...few, ...rests, ...(row.second_verdict && row.second_verdict !== "better" ? [`the second opinion is ${row.second_verdict}`] : [])]);
}

// The answer in one sentence, and the row that it is about.
function answerOf(rows) {
  const at = `${share(rows[0].alpha)}${{ latency: " of the time", energy: " of the energy", money: " of the money" }[rows[0].kind] || ""}`;
  const first = (how) => rows.find((row) => standing(row) === how);
  if (rows[0].stale) return { words: `With other loss weights, at ${at}: the values below are exact, the verdicts need the command.` };
  const [good, weak, unpaid] = ["better", "weak", "unpaid"].map(first);
  const beaten = first("never") || first("always");
  if (good) return { row: good, words: `Run ${good.allocator} at ${at}: ${numbersOf(good)}.` };
  if (weak) return { row: weak, words: `Perhaps ${weak.allocator} at ${at}, but ${doubts(weak)}: ${numbersOf(weak)}.` };
  const closest = rows.find((row) => known(row.versus_random));
  const why = beaten ? `${standing(beaten)} escalating is better` : unpaid ? "no gain over never escalating is certain" : `none is shown to beat ${chanceWords(rows[0])}`;
  return { words: `Nothing here is shown to be worth it at ${at}: ${why}. ${closest ? `Closest: ${closest.allocator}, ${numbersOf(closest)}.` : rows[0].reason ? `${rows[0].allocator}: ${rows[0].reason}.` : ""}` };
}

function others(rows) {
  const kinds = [["better", "worth running"], ["weak", "uncertain"], ["unpaid", "not shown to pay"], ["never", "beaten by never escalating"], ["always", "beaten by always escalating"], ["unresolved", "not told apart from random"], ["worse", "worse than random"], ["infeasible", "unable to pay for themselves"], ["", "without a verdict"]];
  const parts = kinds.map(([how, words]) => [rows.filter((row) => standing(row) === how), words]).filter(([items]) => items.length);
  return rows[0].stale ? "" : `${count(rows.length)} ${rows.length === 1 ? "allocator" : "allocators"}: ${parts.map(([items, words]) => `${items.length} ${words}${items.length < 4 ? ` (${listed(items.map((row) => row.allocator))})` : ""}`).join(", ")}.`;
}

const driving = (cell) => Boolean((cell.frames && !cell.frames.rows) || cell.result.provenance.cell);

function dataWords(cell) {
  const id = cell.result.provenance.cell;
  const name = cell.frames ? cell.frames.dataset : id ? id.split("-")[0] : null;
  return name === "synthetic" ? "Synthetic data (a simulated world, not real drives)" : name ? `Data set ${name}` : "A table of losses (its data set is not named)";
}

function nextStep(cell, row) {
  const { provenance } = cell.result;
  const folder = provenance.cell ? quoted(groupOf(cell)) : "values.csv";
  const costs = provenance.cell ? "" : " --costs costs.toml";
  const rails = row && ["mj_gpu", "mj_all"].includes(row.convention) ? ` --rails ${row.convention}` : "";
  const budget = row && row.kind !== "selection" ? `${costs} --budget ${row.kind}${rails}${row.accounting === "skipping" ? " --skipping" : ""}` : "";
  return row && !row.spender
    ? [`Choose its threshold, and write the router that runs it:`, `deepval threshold ${folder} -s ${quoted(provenance.cell ? row.allocator : `${row.allocator}.csv`)} --alpha ${row.alpha}${budget} --out router.json`]
    : ["See how many units would settle it, and what decides here:", `deepval diagnose ${folder} --resolve 0.02`];
}

function hero(cell, view, state) {
  const rows = bestFirst(cell, state.budget, own(rowsAt(view, state.budget)));
  const { setting } = view;
  const answer = rows.length ? answerOf(rows) : { words: "No allocator was judged." };
  const [why, command] = nextStep(cell, answer.row);
  return h("section", { class: "hero", id: "verdict", "aria-label": "Verdict" },
    h("p", { class: "kicker" }, h("strong", {}, dataWords(cell)), ` · ${cell.name} · ${setting.modes.join(" → ")} · ${many(setting.inputs, "input")} in ${setting.units} `, term("unit", setting.units === 1 ? "unit" : "units"), ` · ${budgetLabel(rows[0] || view.rows[0])}`),
    h("h1", {}, answer.words),
    rows.length ? h("p", { class: "lead others" }, others(rows)) : null,
    h("div", { class: "first" },
      h("div", {}, rows.length ? differences(cell, view, state) : null),
      h("div", {}, h("h3", {}, `Does ${setting.modes[setting.modes.length - 1]} help or harm${setting.modes.length > 2 ? ` against ${setting.modes[0]}` : ""}?`), signBar(setting),
        h("h3", {}, "What next"), h("p", {}, why), h("pre", { class: "command", id: "next", tabindex: "0" }, command.replace(/ (-s|--\w)/g, " \\\n  $1")),
        h("p", { class: "note" }, "Words: ", ["points", onLadder(rows) ? "random-ladder" : "random", "never", "interval", "second opinion", "rests on", "verdict"].map((name, i) => [i ? ", " : "", term(name)]), "; ", h("a", { href: "#glossary", onclick: jump }, "all words"), "."))));
}

// Every verdict as a sentence, and what it rests on.
function verdictsSection(cell, view, state) {
  const rows = bestFirst(cell, state.budget, own(rowsAt(view, state.budget)));
  const verdicts = (items) => h("ul", { class: "verdicts" }, items.map((row) => h("li", { "data-allocator": row.allocator }, chipOf(row), sentence(row))));
  const spending = own(view.rows).filter((row) => row.spender && !rows.includes(row));
  return h("section", { class: "plain", id: "verdicts", "aria-label": "Verdicts" },
    view.warnings.map((warning) => h("p", { class: "note warn" }, warning)),
    spending.length ? verdicts(spending) : null,
    folded(`Every verdict in words (${rows.length})`, verdicts(rows)),
    h("p", { class: "note" }, `${many(view.comparisons, "comparison")} with random; no correction for multiple comparisons${view.rows.some((row) => known(row.versus_random_loss_simultaneous_lo)) ? ", but the table has intervals for all rows at once" : ""}. Brackets are 95 % intervals over units${drawsWords(view)}.`));
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
      return h("td", { "data-tip": `${row.answer || row.verdict}\n${span(row.versus_random_lo, row.versus_random_hi, (v) => signed(v))}` }, h("span", { class: markOf(row) }, `${signed(row.versus_random)}${row.verdict === "worse" ? "*" : ""}`));
    })));
  const budget = cells.flatMap((cell) => cell.result.rows).find((row) => budgetKey(row) === state.budget);
  return block("overview", "All cells at a glance", `As judged: difference with random in points of the all-cheap loss at ${budget ? budgetLabel(budget) : "this budget"}; blue where it is worth it and nothing speaks against it, orange with an asterisk where it is worse. Choose a cell to read below.`,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Overview of cells" }, h("table", { class: "overview" }, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "words" }, "cell"), names.map((name) => h("th", { scope: "col", style: "text-align: center" }, name)))), h("tbody", {}, rows))));
}

function byInput({ inputs, concentration: { half_inputs: few, half_inputs_share: part } }) {
  return known(few) ? `, and ${count(few)} of ${count(inputs)} inputs ${few === 1 ? "has" : "have"} ${percent(part)}` : "";
}

function signBar(setting) {
  const harmed = setting.harm_rate === null ? 0 : Math.round(setting.affected * setting.harm_rate);
  const helped = setting.affected - harmed;
  const parts = [["helped", helped], ["unaffected", setting.inputs - setting.affected], ["harmed", harmed]];
  const colour = { helped: "var(--helped)", unaffected: "var(--even)", harmed: "var(--harmed)" };
  return [h("div", { class: "signbar", role: "img", "aria-label": parts.map(([name, n]) => `${n} inputs ${name}`).join(", ") }, parts.map(([name, n]) => h("span", { style: `flex: ${n}; background: ${colour[name]}`, "data-tip": `${name}: ${n}` }))),
    legendOf(parts.map(([name, n]) => [`${name} ${count(n)} (${percent(n / setting.inputs)})`, colour[name]]))];
}

function signs(cell, view) {
  const { setting } = view;
  const ratio = setting.harm_ratio;
  const best = (setting.budgets.find((item) => item.alpha === 0.2) || setting.budgets[0]);
  const fact = (name, value, detail) => h("div", {}, h("dt", {}, name), h("dd", {}, value), detail ? h("dd", {}, h("small", {}, detail)) : null);
  const orNot = (value, form) => (value === null ? h("span", { class: "undefined" }, "undefined") : form(value));
  return block("sign", "How much is there to gain?", ["The ", term("decision value"), " of an input is the loss under the cheap mode minus the loss under the full mode. It has a sign: more compute can make a decision worse."],
    h("dl", { class: "facts num" },
      fact("harm ratio", orNot(ratio, (v) => number(v, 3)), ratio === null ? "nothing is helped" : `${number(ratio, 2)} lost for every 1 gained`),
      fact("harm rate", orNot(setting.harm_rate, percent), setting.harm_rate === null ? "no input is affected" : "of the affected inputs"),
      fact("escalate everything", orNot(setting.all_full_share, percent), "of the all-cheap loss removed"),
      view.stale ? null : fact(`oracle at ${share(best.alpha)}`, orNot(best.oracle_share, percent), `${best.budget_binds ? "more than" : "at most"} ${share(best.alpha)} of the inputs are worth escalating`),
      fact("all-cheap loss", count(Number(setting.cheap_loss.toPrecision(5))), `of ${many(setting.inputs, "input")}`)),
    setting.concentration.top_unit === null || view.stale ? null : h("p", { class: "note" }, `The possible gain comes from about ${number(setting.concentration.effective_units, 1)} ${number(setting.concentration.effective_units, 1) === "1.0" ? "unit" : "units"}; the largest (unit ${setting.concentration.top_unit}) has ${percent(setting.concentration.top_share)} of it${byInput(setting)}.`));
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
  return chart({ id, kind: "rows", rows, marks, unit: 100, tick: (v) => signed(v, Number.isInteger(Number((100 * v).toFixed(4))) ? 0 : 1), axis: `points of the all-cheap loss, against ${against} at the same budget`, note: (row) => (known(row.versus_random) ? "" : `${row.verdict || "undefined"}: ${row.reason || ""}`), ...others });
}

function differences(cell, view, state) {
  const judged = bestFirst(cell, state.budget, own(rowsAt(view, state.budget)));
  const kind = (row) => (row.stale ? "not judged yet" : ["never", "always"].includes(row.name) ? "for comparison" : { better: "worth it", worse: "worse than random" }[markOf(row)] || "not shown");
  const rows = [...judged, ...uniform(view, state, judged)].map((row) => ({ ...row, name: row.allocator }));
  for (const row of rows) Object.assign(row, { open: kind(row) === "not shown", shape: ["never", "always"].includes(row.name) ? "square" : null });
  return forest("versus-random", rows, kind, {
    label: "Difference with random of every allocator with its 95 % interval", stale: view.stale, valueRoom: 165,
    series: view.stale ? [pair("not judged yet", UNSURE)] : [pair("worth it", HELPED), pair("worse than random", HARMED), pair("not shown", UNSURE), pair("for comparison", INK)],
    valueText: (row) => (known(row.versus_random) ? `${signed(row.versus_random)}${row.stale ? "" : ` ${span(row.versus_random_lo, row.versus_random_hi, (v) => signed(v))}`}` : ""),
    extra: (row) => (row.stale ? {} : { "second opinion": row.second_verdict || "", "second 95 %": span(row.versus_random_second_lo, row.versus_random_second_hi, (v) => signed(v, 2)), verdict: row.verdict_words || row.verdict || "" }),
  });
}

// Never and always escalating against the random baseline of the rows: its own differences with them, reversed.
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
  const choice = h("select", { id: "band" }, [["all", "every allocator"], ...names.map((name) => [name, name]), ["", "none"]].map(([value, label]) => h("option", { value }, label)));
  choice.value = state.band;
  choice.addEventListener("change", () => { state.band = choice.value; state.again("gains"); document.getElementById("band").focus(); state.remember(); });
  return block("gain", "Over all budgets", "Share of the all-cheap loss that is removed, with bands of 95 %. At 0 nothing is escalated (never), at the right end everything (always), so all lines meet.",
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
  return open && block("charged", "With and without its own cost", "An allocator pays for its own computation from the same budget, so fewer inputs can be escalated. Open: gain at the same share without its cost; filled: with its cost.", h("h3", {}, budgetLabel(open[0])), open[1], pairs.filter((item) => item !== open).map(([first, node]) => folded(budgetLabel(first), node)));
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
  const value = (unit, name) => { const found = view.units.find((item) => item.unit === unit); return name === "oracle" ? found.oracle_gain : found.gains[name]; };
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
    view.stale ? h("p", { class: "note" }, "The files hold the result as it was judged, not the weights chosen above.") : null);
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
