"""Commands about routers: `deepval threshold`, `shadow` and `import`.

A table and scores -> a router, or a plan of which inputs run both modes; the log of a
public router -> a values file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from deepval.basics.errors import InputError, few
from deepval.cli import options, terminal
from deepval.cli.table_routers import TABLE_DEFAULTS, TableOptions, write_table
from deepval.cli.terminal import say

if TYPE_CHECKING:
    from deepval.judge.cases import EvaluationData
    from deepval.judge.results import Answer
    from deepval.judge.tables.logs.roles import NamedColumns
    from deepval.judge.tables.scores import Scores
    from deepval.judge.tables.values import ValueTable

Policy = Literal[
    "best",
    "frozen-threshold",
    "causal-cap",
    "adaptive-threshold",
    "token-bucket",
    "dual-price",
    "replay-threshold",
    "conformal-harm",
]
Method = Literal["doubly-robust", "ipw", "self-normalised"]
Repeat = Literal["first", "mean", "trial"]
"""Words that an option takes; the library has the same ones (tests/cli)."""


@Parameter(name="*")
@dataclass(frozen=True)
class CalibratedSubject(options.SubjectOptions):
    """The subject of a threshold, whose units differ from those that set it.

    Attributes:
        units: Units whose rate is predicted. Default: those of --calibrate.
    """

    units: Annotated[str | None, Parameter(group=options.SUBJECT)] = None


CALIBRATED_DEFAULTS = CalibratedSubject()
CERTIFICATE = "--harm-at-most"
VALUES = Path("values.parquet")
DENIED = 3
"""Exit code where the answer is not to run the router."""
ALONE = (
    "The interval is that of this score alone; `evaluate` widens it where it compares "
    "several."
)


def threshold(
    values: options.Values,
    /,
    *,
    scores: options.ScoreFiles = (),
    subject: CalibratedSubject = CALIBRATED_DEFAULTS,
    groups: TableOptions = TABLE_DEFAULTS,
    calibrate: options.Calibration = None,
    alpha: Annotated[
        float, Parameter(validator=options.Between(), group=options.BUDGETS)
    ] = 0.2,
    budget: Annotated[
        options.BudgetKind | None, Parameter(group=options.BUDGETS)
    ] = None,
    skipping: options.Skipping = False,
    base: Annotated[str | None, Parameter(group=options.BUDGETS)] = None,
    draws: options.DrawOptions = options.DRAWS_DEFAULTS,
    policy: Annotated[Policy, Parameter(group=options.OUTPUT)] = "best",
    harm: Annotated[
        str | None, Parameter(name=CERTIFICATE, group=options.OUTPUT)
    ] = None,
    bound: Annotated[str | None, Parameter(group=options.OUTPUT)] = None,
    certainty: Annotated[str | None, Parameter(group=options.OUTPUT)] = None,
    one_stream: Annotated[bool, Parameter(group=options.OUTPUT)] = False,
    force: Annotated[bool, Parameter(group=options.OUTPUT)] = False,
    out: options.Out = None,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> int:
    """The answer comes first, from the calibration units, because the units that judge
    must not choose. Where it is `do not run`, nothing is written: exit code 3. The
    policy is replayed in time order on the calibration units (a cell's validation
    units, or all units of a values file); rate, gain and interval are those of the
    replay. `deepval.Router.load` reads the file. With --table-by it is a table with a
    mode for each group, which `deepval.TableRouter.load` reads.

    Example: deepval threshold values.csv -s mine.csv --alpha 0.2 --out router.json

    Args:
        alpha: Share of the inputs to escalate, in (0, 1].
        budget: Selection, or a measured cost: then --alpha is a share of that cost.
            Default: money where the table has prices, else selection.
        base: Mode that runs where the score is low, instead of the cheap one.
        policy: What the router runs, or best: that of the next four that gains most in
            a replay within 2 points of the rate.
        harm: Certify that a new unit is harmed by at most: 1%.
        bound: Largest harm of a unit that counts. Default: 10%.
        certainty: Certify it of this calibration, with 90% certainty, say. Default: on
            average over calibrations.
        one_stream: All inputs are one stream: the policy never restarts.
        force: Write the router whatever the answer.
        out: Write the router (.json) to this file.
    """
    from deepval.basics.files.canonical import plain
    from deepval.basics.files.writing import check_writable, write_atomically
    from deepval.judge.answers.routed import check_base, routed
    from deepval.judge.cases import judge
    from deepval.judge.deployment import BOUND, deployment
    from deepval.judge.report.tables import threshold_table
    from deepval.judge.report.tables.certificate import certificate_table
    from deepval.judge.routing import file_text

    stated = () if budget is None else (budget,)
    budgets = options.ChargedBudgets((alpha,), stated, skipping)
    if out is not None:
        check_writable(out)
    _check_certificate(harm, {"--bound": bound, "--certainty": certainty})
    if groups != TABLE_DEFAULTS:
        stated_others = {
            "--scores": bool(scores),
            "--base": base is not None,
            "--policy": policy != "best",
            CERTIFICATE: harm is not None,
            "--one-stream": one_stream,
        }
        groups.check([name for name, is_stated in stated_others.items() if is_stated])
        case = subject.case(values)
        is_written = write_table(
            case,
            budgets.of(case, {})[0],
            groups,
            calibration=case.units(
                options.unit_list(calibrate, case.roles), usual="validation"
            ),
            draws=draws,
            force=force,
            out=out,
            json=printing.is_json,
        )
        return DENIED * (not is_written)
    case, scored = _calibrated(subject, values, scores)
    ((name, own),) = scored.items()
    level = budgets.of(case, scored)[0]
    calibration = case.units(
        options.unit_list(calibrate, case.roles), usual="validation"
    )
    if base is not None:
        check_base(case.table, base)
    # Nothing is counted in the ledger: no test unit is looked at.
    judged = judge(
        case,
        scored,
        [level],
        command=None,
        units=calibration or list(case.table.unit_ids),
        missing=subject.missing,
        draws=draws.number,
        seed=draws.seed,
    )
    answer = judged.answers[0]
    if not printing.is_json:
        say(_answer_words(answer, base))
    if _is_denied(answer, base) and not force:
        if printing.is_json:
            terminal.print_json({"answer": plain(answer), "router": None})
        else:
            say("No router is written; --force writes it.", err=True)
        return DENIED
    # Where each input has its own price, the router keeps the rate that the money buys.
    table, level = routed(judged, case.table, level, base)
    deployed = deployment(
        table,
        own,
        level,
        calibration=calibration,
        units=case.units(options.unit_list(subject.units, case.roles)),
        policy=policy,
        reset=not one_stream,
        harm_at_most=_share(harm, CERTIFICATE),
        bound=BOUND if bound is None else options.share(bound, "--bound"),
        certainty=_share(certainty, "--certainty"),
        missing=subject.missing,
        draws=draws.number,
        seed=draws.seed,
    )
    certificate = deployed.certificate
    routing = deployed.routing
    if out is not None:
        about = {**routing.about, **case.provenance}
        write_atomically(out, file_text(replace(routing, about=about)))
    units = [str(unit) for unit in calibration or case.table.unit_ids]
    if printing.is_json:
        content = {
            "answer": plain(answer),
            "threshold": plain(deployed.threshold),
            "replays": [replay._asdict() for replay in deployed.replays],
            "certificate": certificate and certificate._asdict(),
            "router": None if out is None else str(out),
            "calibration_units": units,
        }
        terminal.print_json(content | case.provenance)
        return 0
    tables = [threshold_table([deployed.threshold], calibration_units=units)]
    if certificate is not None:
        tables.append(certificate_table(certificate, deployed.replays))
    terminal.print_tables(tables)
    if out is not None:
        streams = "call begin() at each unit"
        if one_stream:
            streams = "all inputs are one stream"
        reached = " or ".join([", ".join(routing.modes[:-1]), routing.modes[-1]])
        runs = routing.policy_name.replace(" ", "-")
        say(f"\n{out}: {name} under {runs} answers {reached}; {streams}.")
    return 0


def _check_certificate(harm: str | None, about: Mapping[str, str | None]) -> None:
    """Raise where an option is stated of no certificate."""
    for option, text in about.items():
        if text is not None and harm is None:
            raise InputError(
                f"{option} applies only to {CERTIFICATE}: give it too, or leave "
                f"{option} out."
            )


def _share(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    return options.share(text, option)


def _calibrated(
    subject: CalibratedSubject, values: Path, scores: tuple[str, ...]
) -> "tuple[EvaluationData, dict[str, Scores]]":
    """The data of a router, and the scores of its one allocator."""
    from deepval.judge.cases import note_unknown_fits

    case = subject.case(values)
    scored = _only(
        case.scores(options.score_files(scores)), "A threshold belongs to one allocator"
    )
    note_unknown_fits(scored)
    if case.table.estimated is not None:
        say(f"deepval: note: {case.table.estimated}", err=True)
    return case, scored


def _only(scored: "dict[str, Scores]", what: str) -> "dict[str, Scores]":
    """The scores, which must be those of one allocator."""
    if len(scored) != 1:
        raise InputError(f"{what}; found {few(list(scored))}: name one with -s.")
    return scored


def _is_denied(answer: "Answer", base: str | None) -> bool:
    """Whether a router is not written: on another base, unless it is worth running."""
    if base is None:
        return answer.verdict == "do not run"
    return answer.on_top != base


def _answer_words(answer: "Answer", base: str | None) -> str:
    """The answer, about the score on another base where one was named."""
    if base is None:
        words = f"{answer.sentence} {answer.hint or answer.instead}"
        return words if answer.lead_lo is None else f"{words}\n{ALONE}"
    if answer.on_top == base and answer.hint is not None:
        return answer.hint
    return (
        f"Not shown to be worth running on {base}: {answer.sentence} {answer.instead}"
    )


def shadow(
    values: options.Values,
    /,
    *,
    scores: options.ScoreFiles = (),
    units: Annotated[str | None, Parameter(group=options.SUBJECT)] = None,
    share: Annotated[
        float, Parameter(validator=options.Between(0, 1), group=options.BUDGETS)
    ] = 0.03,
    alpha: Annotated[
        float, Parameter(validator=options.Between(0, 0.999), group=options.BUDGETS)
    ] = 0.2,
    escalating: Annotated[bool, Parameter(group=options.BUDGETS)] = False,
    by_loss: bool = False,
    coming: Path | None = None,
    seed: options.Seed = 0,
    out: Annotated[Path, Parameter(alias="-o")],
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """Propensities follow the weight of an input in the gain over random and the size
    of decision values by score, or by the cheap loss, in an earlier complete table.
    `deepval.ShadowPlan.load` reads the file, and `deepval.ShadowLog` logs the runs.

    Example: deepval shadow values.csv -s mine.csv --share 0.03 --out plan.json

    Args:
        units: Units of the earlier table: a,b,c or a file with one per line; for a cell
            also test, validation, train, fit or all.
        share: Share of the inputs to run both modes on.
        alpha: Share of escalated inputs at which to judge.
        escalating: The system escalates --alpha by this score: both modes run there.
        by_loss: Full runs follow once the cheap loss is known: propensities depend on
            it, too.
        coming: Scores of the coming inputs (input, score; with --by-loss: loss).
        out: Write the plan (.json), or propensities by input (.csv).
    """
    import numpy as np

    from deepval.basics.files.canonical import plain
    from deepval.basics.files.writing import check_writable, write_atomically
    from deepval.judge.shadow import shadow_plan
    from deepval.judge.tables import columns
    from deepval.judge.tables.scores import on_part

    check_writable(out)
    if out.suffix not in (".csv", ".json"):
        raise InputError(
            f"{out}: the name must end in "
            f".csv or .json; found {out.suffix or 'no ending'!r}."
        )
    case = options.SUBJECT_DEFAULTS.case(values)
    scored = case.scores(options.score_files(scores))
    judged, _ = case.judged_units(options.unit_list(units, case.roles), scored)
    table = case.table if judged is None else case.table.restrict(judged)
    (own,) = _only(scored, "A shadow plan belongs to one score").values()
    past = on_part(table, own, case.table, "error")
    raw, names = (
        None if coming is None else columns.read(coming),
        ("score", "loss")[: 1 + by_loss],
    )
    if raw is not None:
        raw.require("input", *names)
        columns.refuse_repeated(raw.ids("input"), raw.source)
    now = (past.values, table.losses[:, 0])[: 1 + by_loss]
    future, *loss = now if raw is None else map(raw.numbers, names)
    more = {"signal": now[1], "coming_signal": loss[0]} if by_loss else {}
    plan = shadow_plan(
        table,
        past,
        share,
        coming=future,
        alpha=alpha,
        escalating=escalating,
        seed=seed,
        **more,
    )
    if out.suffix == ".json":
        plan.save(out)
    else:
        ids = (table.input if raw is None else raw.ids("input")).astype(str)
        rows = list(
            zip(*(column.tolist() for column in (future, ids, *loss)), strict=True)
        )
        runs = np.array([plan.shadows(*row) for row in rows], dtype=int)
        chance = np.array(
            [plan.propensity(score, *signal) for score, _, *signal in rows]
        )
        write_atomically(
            out, columns.csv_text({"input": ids, "propensity": chance, "shadow": runs})
        )
    if printing.is_json:
        terminal.print_json(plain(plan))
        return
    low, high = (
        f"{100 * chance:.3g}"
        for chance in (min(plan.propensities), max(plan.propensities))
    )
    say(
        f"{out}: both modes on {100 * share:.3g} % of the inputs, propensities {low} "
        f"to {high} %. The design's forecast, if values spread as in {values}: as "
        f"precise as {100 * plan.uniform:.3g} % at random. The error of the "
        "prediction comes on top."
    )


@Parameter(name="*")
@dataclass(frozen=True)
class LogColumns:
    """Columns of a log by role; what is left out is taken by its usual name.

    Attributes:
        id: Column of ids of the inputs (request_id, prompt_id, ...).
        model: Column of models, in a log with a row per run.
        right: Column of quality: right or wrong (0/1, true/false, correct/wrong) or how
            good (0 to 1, 85 %). With a column per model: small,large.
        reward: The same, of any size.
        loss: The same, lower is better.
        cost: Column of prices in dollars. With a column per model, small_cost or
            cost_small beside small is found.
        unit: Column of units: tenants, users, documents. Default: the usual names, else
            each input.
        order: Column of times: numbers, seconds or milliseconds since 1970, ISO 8601.
        group: Column of groups of inputs, which is kept. Repeatable.
        score: Column of a router's score, which is kept, or a scores file, or
            prompt_length. Repeatable.
        propensity: Column with the probability of the model that ran.
    """

    id: Annotated[str | None, Parameter(group=options.COLUMNS)] = None
    model: Annotated[str | None, Parameter(group=options.COLUMNS)] = None
    right: Annotated[str | None, Parameter(group=options.COLUMNS)] = None
    reward: Annotated[str | None, Parameter(group=options.COLUMNS)] = None
    loss: Annotated[str | None, Parameter(group=options.COLUMNS)] = None
    cost: Annotated[str | None, Parameter(group=options.COLUMNS)] = None
    unit: Annotated[str | None, Parameter(group=options.COLUMNS)] = None
    order: Annotated[str | None, Parameter(group=options.COLUMNS)] = None
    group: Annotated[tuple[str, ...], Parameter(group=options.COLUMNS)] = ()
    score: Annotated[tuple[str, ...], Parameter(group=options.COLUMNS)] = ()
    propensity: Annotated[str | None, Parameter(group=options.COLUMNS)] = None

    def named(self, modes: str | None) -> "NamedColumns":
        """The columns as the library takes them."""
        from deepval.judge.tables.logs.roles import NamedColumns

        return NamedColumns(
            id=self.id,
            model=self.model,
            right=options.name_list(self.right) or (),
            reward=options.name_list(self.reward) or (),
            loss=options.name_list(self.loss) or (),
            cost=self.cost,
            unit=self.unit,
            order=self.order,
            propensity=self.propensity,
            group=self.group,
            score=self.score,
            modes=options.name_list(modes),
        )


COLUMNS_DEFAULTS = LogColumns()


def import_log(
    log: tuple[Path, ...],
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o", group=options.OUTPUT)] = VALUES,
    columns: LogColumns = COLUMNS_DEFAULTS,
    modes: str | None = None,
    repeat: Repeat | None = None,
    quality: Path | None = None,
    hash_ids: bool = False,
    prices: Path | None = None,
    dataset: str | None = None,
    scores_out: Annotated[Path | None, Parameter(group=options.OUTPUT)] = None,
    best: Annotated[
        float | None, Parameter(validator=options.Between(-1e12, 1e12))
    ] = None,
    off_policy: Method | None = None,
    feature: tuple[str, ...] = (),
    clip: Annotated[float | None, Parameter(validator=options.Between(0, 1))] = None,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """The file has a reward or loss and a price per input and model, units, times and
    groups; prompts, answers and all other columns stay out. What each column was taken
    for is printed. Public tables and the logs of RouterArena, Inspect, LiteLLM,
    Langfuse, OpenTelemetry and the vLLM semantic router are recognised. With
    --off-policy the values of modes that did not run are estimates, and every result
    notes it.

    Example: deepval import requests.csv --right correct --unit tenant -o values.parquet

    Args:
        log: Logs (.csv, .parquet, .json, .jsonl, .eval) with a row per run of a model,
            or a column per model, or folders of them.
        out: The values file to write: .parquet or .csv.
        modes: Models to keep, cheap first: small,large. Default: all, by mean price,
            else by mean quality.
        repeat: Which run counts where a model ran more than once on an input: the
            first, their mean, or each as a trial (columns reward_MODE@1, @2, ...).
        quality: File with quality by id (columns id, correct or score), for a log
            without.
        hash_ids: Write digests of ids and units: SHA-256, 16 digits.
        prices: CSV with dataset, model, cost_per_10k. Default: the one beside LOG, if
            it lists its models.
        dataset: Data set of LOG in that CSV. Default: the one that LOG's name contains.
        scores_out: Folder to write a scores file per score to.
        best: Highest possible quality: loss = best - quality. Default: rewards; for
            public tables 1.
        off_policy: For a log with one model per input and its propensity: how to
            estimate the others.
        feature: Column that predicts values, for doubly-robust. Repeatable.
        clip: Raise smaller propensities to this value; adds bias.
    """
    from deepval.basics.files.writing import check_writable
    from deepval.judge.tables.logs.importing import read_estimates, read_import
    from deepval.judge.tables.logs.writing import check_name, write_scores, write_values

    check_name(out)
    check_writable(out)
    if scores_out is not None:
        check_writable(scores_out, folder=True)
    if off_policy is None and (feature or clip is not None):
        raise InputError(
            "--feature and --clip apply only to --off-policy: "
            "give it too, or leave them out."
        )
    if off_policy is None:
        imported = read_import(
            log,
            columns.named(modes),
            best=best,
            prices=prices,
            dataset=dataset,
            quality=quality,
            repeat=repeat,
            hash_ids=hash_ids,
        )
    else:
        others = (repeat, best, prices, dataset)
        if modes is None or columns.score or any(o is not None for o in others):
            raise InputError(
                "--off-policy needs --modes, cheap first, and takes no --score, "
                "--repeat, --best, --prices or --dataset."
            )
        imported = read_estimates(
            log,
            columns.named(modes),
            method=off_policy,
            features=feature,
            clip=clip,
            quality=quality,
            hash_ids=hash_ids,
        )
    table = imported.table
    write_values(table, out, trials=imported.trials)
    score_files = [] if scores_out is None else write_scores(table, scores_out)
    if table.estimated is not None:
        say(f"deepval: note: {table.estimated}", err=True)
    if printing.is_json:
        content = {
            "values": str(out),
            "inputs": len(table),
            "units": len(table.unit_ids),
            "models": _models(table),
            "columns": imported.lines,
            "estimated": table.estimated,
            "scores": list(map(str, score_files)),
        }
        terminal.print_json(content)
        return
    for line in imported.lines:
        say(line)
    _say_models(table, out)
    for path in score_files:
        say(
            f"{path}: scores; check that a router has this number "
            "before it calls a model."
        )


def _models(table: "ValueTable") -> list[dict[str, str | float | None]]:
    """The mean loss or reward, and the mean price, of each model."""
    costs = table.input_costs.get("usd")
    measure = "mean_reward" if table.is_reward else "mean_loss"
    models = []
    for column, mode in enumerate(table.modes):
        mean = float(table.losses[:, column].mean())
        if table.is_reward:
            mean = 0.0 - mean
        price = None if costs is None else float(costs[:, column].mean())
        models.append({"mode": mode, measure: mean, "mean_usd": price})
    return models


def _say_models(table: "ValueTable", out: Path) -> None:
    """Print what a values file holds."""
    from deepval.judge.report.text_tables import quantity

    noun, unit_noun = table.nouns
    content = quantity(len(table), noun)
    if unit_noun != noun:  # else each input is a unit
        content += f" in {quantity(len(table.unit_ids), unit_noun)}"
    say(f"{out}: {content}, models cheap first:")
    for model in _models(table):
        price = ""
        if model["mean_usd"] is not None:
            price = f", {model['mean_usd']:.3g} USD per call"
        if table.is_reward:
            quality = f"mean reward {model['mean_reward']:.4g}"
        else:
            quality = f"mean loss {model['mean_loss']:.4g}"
        say(f"  {model['mode']}: {quality}{price}")
