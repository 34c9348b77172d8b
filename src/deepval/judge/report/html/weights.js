// Sliders for the weights of the loss, and the Python that judges them with intervals.

// JSON text of numbers, names and lists is Python, too.
const python = (value) => JSON.stringify(value);

function budgetOf(row, costs) {
  const maker = { selection: "Selection", latency: "Latency", energy: "Energy", money: "Money" }[row.kind];
  const words = [row.alpha];
  if (row.kind !== "selection") {
    words.push(costs ? python("costs.toml") : "None", `accounting=${python(row.accounting)}`);
    if (row.kind === "energy") words.push(`convention=${python(row.convention)}`);
  }
  return `deepval.${maker}(${words.join(", ")})`;
}

function commandOf(result, weights) {
  const { provenance, inputs, rows } = result;
  const fileOf = (name) => (/[=/\\]/.test(name) ? "scores.csv" : `scores/${name}.csv`);
  const scores = Object.fromEntries(Object.keys(provenance.scores).map((name) => [name, fileOf(name)]));
  const budgets = [...new Set(rows.map((row) => budgetOf(row, provenance.costs)))];
  const { method, number, seed } = provenance.draws;
  const lines = [
    python("values.parquet"),
    python(scores),
    `[${budgets.join(",\n     ")}]`,
    `terms=${python("terms.parquet")}`,
    `weights=${python(Object.fromEntries(inputs.free.map((name) => [name, weights[name]])))}`,
    `units=${python(provenance.units)}`,
    `draws=${python(method === "exact" ? "exact" : number)}`,
  ];
  if (known(seed)) lines.push(`seed=${seed}`);
  if (provenance.calibration_units) lines.push(`calibration=${python(provenance.calibration_units)}`);
  if (rows.some((row) => row.kind !== "selection")) lines.push('missing_costs="list"');
  if (Object.values(provenance.scores).some((item) => item.coverage < 1)) lines.push('missing="worst"');
  if (result.curves.length) lines.push(`curve_points=${result.curves[0].alpha.length}`);
  if (rows.some((row) => known(row.versus_random_simultaneous_lo))) lines.push("simultaneous_intervals=True");
  return `import deepval\nresult = deepval.evaluate(\n    ${lines.join(",\n    ")},\n)\nresult.save("reweighted.json")`;
}

const sameWeights = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);

function weightsSection(cell, state, changed) {
  const { inputs } = cell.result;
  const lead = "Actions do not depend on these weights, so point values follow the sliders. Intervals and verdicts turn grey: the Python below makes new ones.";
  const title = "Try other loss weights";
  if (!inputs) return null;
  const fixedNames = Object.keys(inputs.weights).filter((name) => !inputs.free.includes(name));
  const closed = fixedNames.length ? h("p", { class: "note" }, `The weights of ${listed(fixedNames)} also shape the plan: other values need another cell.`) : null;
  if (!inputs.free.length) return block("weights", title, null, closed);
  const weights = state.weights[cell.name];
  const command = h("pre", { class: "command", id: "command", tabindex: "0" });
  const status = h("p", { class: "note", role: "status", id: "weights-status" });
  const controls = inputs.free.map((name) => {
    const base = inputs.weights[name];
    const most = base > 0 ? 4 * base : 1;
    const step = most / 80;
    const id = `weight-${name}`;
    const slide = h("input", { type: "range", id, min: 0, max: most, step: Number(step.toPrecision(6)), "data-term": name });
    const exact = h("input", { type: "number", step: "any", "aria-label": `weight of ${name}, exact`, "data-exact": name });
    const put = (value) => {
      if (!Number.isFinite(value)) return;
      weights[name] = value;
      changed();
    };
    slide.addEventListener("input", () => put(Number(slide.value)));
    exact.addEventListener("input", () => { if (exact.value !== "") put(Number(exact.value)); });
    const show = () => {
      slide.value = weights[name];
      slide.setAttribute("aria-valuetext", String(weights[name]));
      if (Number(exact.value) !== weights[name] || exact.value === "") exact.value = weights[name];
    };
    return { show, node: h("div", { class: "slider" }, h("label", { for: id }, name, h("span", {}, `judged with ${base}`)), h("div", {}, slide, exact)) };
  });
  const reset = h("button", { type: "button", id: "reset-weights", onclick: () => { Object.assign(weights, inputs.weights); changed(); } }, "Back to the judged weights");
  const copy = h("button", { type: "button", onclick: () => { if (navigator.clipboard) navigator.clipboard.writeText(command.textContent).catch(() => {}); } }, "Copy");
  const section = block("weights", title, lead, h("div", { class: "sliders" }, controls.map((control) => control.node)), h("div", { class: "row" }, reset), status,
    folded("The Python for these weights", h("p", { class: "lead" }, "Run it in the folder of the cell, which has the score files."), command, h("div", { class: "row" }, copy)), closed);
  section.refresh = () => {
    controls.forEach((control) => control.show());
    command.textContent = commandOf(cell.result, weights);
    status.textContent = sameWeights(weights, inputs.weights) ? "Everything on the page is as judged." : "Point values use these weights. Intervals and verdicts in grey do not.";
  };
  section.refresh();
  return section;
}
