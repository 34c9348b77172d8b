"""Commands about routers: `deepval threshold`, `diagnose`, `shadow` and `import`.

A table and scores -> a router, or a report on what the data can show; the log of a
public router -> a values file.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from deepval.cli import options, terminal
from deepval.cli.terminal import say
from deepval.errors import InputError, few

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
"""Words that an option takes; the library has the same ones (tests/cli)."""


def diagnose(
    values: options.Values,
    /,
    *,
    scores: options.ScoreFiles = (),
    subject: options.SubjectOptions = options.SUBJECT_DEFAULTS,
    budgets: options.Budgets = options.BUDGETS_DEFAULTS,
    draws: options.DrawOptions = options.DRAWS_DEFAULTS,
    resolve: Annotated[float, Parameter(validator=options.Between(-1e9, 1e9))] = 0.01,
    json: options.Json = False,
) -> None:
    """Check what a cell can show: budgets, ties, power.

    Does the budget bind? Do ties or single units decide? How many units are enough? For
    a cell, the scores in its folder are read, and the test units are judged; all units
    if no scores were fitted. Scores are optional.

    Example: deepval diagnose cells/braking-monocular --resolve 0.02

    Args:
        resolve: Report how many units resolve this share of the all-cheap loss.
    """
    from deepval.files.canonical import plain
    from deepval.judging import diagnosis
    from deepval.judging.cases import note
    from deepval.report.comparisons import diagnosis_sentence, diagnosis_tables

    if not 0 < abs(resolve) < math.inf:
        raise InputError(
            f"--resolve must be a difference other than 0; found {resolve:g}."
        )
    case = subject.case(values)
    files = options.named_files(scores)
    scored = case.scores(files) if files or case.has_scores else {}
    units, _ = case.judged_units(options.unit_list(subject.units, case.roles), scored)
    levels = budgets.of(case, scored)
    result = diagnosis.diagnose(
        case.table,
        scored,
        levels,
        units=units,
        draws=draws.number,
        seed=draws.seed,
        missing=subject.missing,
        missing_costs=case.missing_costs(
            scored, levels, requested=bool(budgets.budget)
        ),
        difference=abs(resolve),
        watch=terminal.watch,
    )
    note(case.cell, by="diagnose", units=units, scores=scored)
    if json:
        terminal.print_json(plain(dict(result)) | case.provenance)
        return
    say(diagnosis_sentence(result))
    terminal.print_tables(list(diagnosis_tables(result)))


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


def threshold(
    values: options.Values,
    /,
    *,
    scores: options.ScoreFiles = (),
    subject: CalibratedSubject = CALIBRATED_DEFAULTS,
    calibrate: options.Calibration = None,
    alpha: Annotated[
        float, Parameter(validator=options.Between(), group=options.BUDGETS)
    ] = 0.2,
    budget: Annotated[
        options.BudgetKind, Parameter(group=options.BUDGETS)
    ] = "selection",
    rails: options.Rails = None,
    skipping: options.Skipping = False,
    draws: options.DrawOptions = options.DRAWS_DEFAULTS,
    policy: Annotated[Policy, Parameter(group=options.OUTPUT)] = "best",
    harm: Annotated[
        str | None, Parameter(name=CERTIFICATE, group=options.OUTPUT)
    ] = None,
    bound: Annotated[str | None, Parameter(group=options.OUTPUT)] = None,
    one_stream: Annotated[bool, Parameter(group=options.OUTPUT)] = False,
    out: options.Out = None,
    json: options.Json = False,
) -> None:
    """Choose the score threshold for a budget; write a router.

    The policy is replayed in time order on the calibration units (a cell's validation
    units, or all units of a values file); rate, gain and interval are those of the
    replay. `deepval.Router.load` reads the file.

    Example: deepval threshold values.csv -s mine.csv --alpha 0.2 --out router.json

    Args:
        alpha: Share of the inputs to escalate, in (0, 1].
        budget: Selection, or a measured cost: then --alpha is a share of that cost.
        policy: What the router runs, or best: that of the next four that gains most in
            a replay within 2 points of the rate.
        harm: Certify that a new unit is harmed by at most: 1%.
        bound: Largest harm of a unit that counts. Default: 10%.
        one_stream: All inputs are one stream: the policy never restarts.
        out: Write the router (.json) to this file.
    """
    from deepval.files.canonical import plain
    from deepval.files.writing import check_writable, write_atomically
    from deepval.judging.cases import note_unknown_fits
    from deepval.judging.deployment import BOUND, deployment
    from deepval.judging.routing import file_text
    from deepval.report.comparisons import certificate_table
    from deepval.report.result_tables import threshold_table

    if out is not None:
        check_writable(out)
    if bound is not None and harm is None:
        raise InputError(
            "--bound applies only to --harm-at-most: give it too, or leave --bound out."
        )
    case = subject.case(values)
    scored = case.scores(options.named_files(scores))
    if len(scored) != 1:
        raise InputError(
            "A threshold belongs to one allocator; "
            f"found {few(list(scored))}: name one with -s."
        )
    note_unknown_fits(scored)
    if case.table.estimated is not None:
        say(f"deepval: note: {case.table.estimated}", err=True)
    ((name, own),) = scored.items()
    (level,) = options.ChargedBudgets((alpha,), (budget,), rails, skipping).charged(
        case, scored
    )
    deployed = deployment(
        case.table,
        own,
        level,
        calibration=case.units(
            options.unit_list(calibrate, case.roles), usual="validation"
        ),
        units=case.units(options.unit_list(subject.units, case.roles)),
        policy=policy,
        reset=not one_stream,
        harm_at_most=None if harm is None else options.share(harm, CERTIFICATE),
        bound=BOUND if bound is None else options.share(bound, "--bound"),
        missing=subject.missing,
        draws=draws.number,
        seed=draws.seed,
    )
    calibration_units, certificate = (
        deployed.routing.about["calibration_units"],
        deployed.certificate,
    )
    if out is not None:
        write_atomically(
            out,
            file_text(
                replace(
                    deployed.routing,
                    about={**deployed.routing.about, **case.provenance},
                )
            ),
        )
    if json:
        content = {
            "threshold": plain(deployed.threshold),
            "replays": [replay._asdict() for replay in deployed.replays],
        }
        content |= {
            "certificate": certificate and certificate._asdict(),
            "router": None if out is None else str(out),
        }
        terminal.print_json(
            content | {"calibration_units": calibration_units} | case.provenance
        )
        return
    tables = [
        threshold_table([deployed.threshold], calibration_units=calibration_units)
    ]
    if certificate is not None:
        tables.append(certificate_table(certificate, deployed.replays))
    terminal.print_tables(tables)
    if out is not None:
        streams = (
            "all inputs are one stream" if one_stream else "call begin() at each unit"
        )
        answers = " or ".join(
            [", ".join(deployed.routing.modes[:-1]), deployed.routing.modes[-1]]
        )
        runs = deployed.routing.policy_name.replace(" ", "-")
        say(f"\n{out}: {name} under {runs} answers {answers}; {streams}.")


def shadow(
    values: options.Values,
    /,
    *,
    scores: options.ScoreFiles = (),
    subject: options.SubjectOptions = options.SUBJECT_DEFAULTS,
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
    json: options.Json = False,
) -> None:
    """Plan which inputs run both modes, to judge a running system.

    Propensities follow the weight of an input in the gain over random and the size of
    decision values by score, or by the cheap loss, in an earlier complete table.
    `deepval.ShadowPlan.load` reads the file, and `deepval.ShadowLog` logs the runs.

    Example: deepval shadow values.csv -s mine.csv --share 0.03 --out plan.json

    Args:
        share: Share of the inputs to run both modes on.
        alpha: Share of escalated inputs at which to judge.
        escalating: The system escalates --alpha by this score: both modes run there.
        by_loss: Full runs follow once the cheap loss is known: propensities depend on
            it, too.
        coming: Scores of the coming inputs (input, score; with --by-loss: loss).
        out: Write the plan (.json), or propensities by input (.csv).
    """
    import numpy as np

    from deepval.files.canonical import plain
    from deepval.files.writing import check_writable, write_atomically
    from deepval.judging.shadow import shadow_plan
    from deepval.tables import columns
    from deepval.tables.scores import on_part

    check_writable(out)
    if out.suffix not in (".csv", ".json"):
        raise InputError(
            f"{out}: the name must end in "
            f".csv or .json; found {out.suffix or 'no ending'!r}."
        )
    case = subject.case(values)
    scored = case.scores(options.named_files(scores))
    units, _ = case.judged_units(options.unit_list(subject.units, case.roles), scored)
    table = case.table if units is None else case.table.restrict(units)
    if len(scored) != 1:
        raise InputError(
            "A shadow plan belongs to one score; "
            f"found {few(list(scored))}: name one with -s."
        )
    (own,) = scored.values()
    past = on_part(table, own, case.table, subject.missing)
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
    if json:
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


def import_log(
    log: Path,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    modes: str | None = None,
    unit: str | None = None,
    prices: Path | None = None,
    dataset: str | None = None,
    scores_out: Path | None = None,
    best: Annotated[
        float | None, Parameter(validator=options.Between(-1e12, 1e12))
    ] = None,
    off_policy: Method | None = None,
    feature: tuple[str, ...] = (),
    clip: Annotated[float | None, Parameter(validator=options.Between(0, 1))] = None,
    json: options.Json = False,
) -> None:
    """Turn a public table of models into a values file.

    The file has a loss and a cost per input and model, and further columns of the
    inputs. The format is recognised by its columns. With --off-policy the losses of
    modes that did not run are estimates, and every result notes it.

    Example: deepval import routerbench_0shot.parquet --modes
    mixtral-8x7b-chat,gpt-4-1106-preview -o values.parquet

    Args:
        log: A table (.csv, .parquet, .json, .jsonl) in the format of RouterBench,
            RouteLLM, RouterDC, RouterArena, LLMRouterBench, FrugalML or NAVSIM, or a
            folder of LLMRouterBench's results.
        out: The values file to write: .parquet or .csv.
        modes: Models to keep, cheap first: small,large. Default: all, by rising cost.
        unit: Column with the units. Default: the log, group or data set; else each row.
        prices: CSV with dataset, model, cost_per_10k. Default: the one beside LOG, if
            it lists its models.
        dataset: Data set of LOG in that CSV. Default: the one that LOG's name contains.
        scores_out: Folder to write a scores file per attribute to: low confidence,
            prompt length, ...
        best: Highest possible quality: loss = best - quality. Default: 1.
        off_policy: For a log with one mode per input (unit, input, mode, loss,
            propensity): how to estimate the other losses.
        feature: Column that predicts losses, for doubly-robust. Repeatable.
        clip: Raise smaller propensities to this value; adds bias.
    """
    from deepval.files.writing import check_writable
    from deepval.report.text_tables import quantity
    from deepval.tables.router_logs import (
        import_router_log,
        values_from_log,
        write_scores,
        write_values,
    )

    check_writable(out)
    if scores_out is not None:
        check_writable(scores_out, folder=True)
    if off_policy is None and (feature or clip is not None):
        raise InputError(
            "--feature and --clip apply only to --off-policy: "
            "give it too, or leave them out."
        )
    if off_policy is None:
        names = options.name_list(modes)
        table = import_router_log(
            log, models=names, unit=unit, best=best, prices=prices, dataset=dataset
        )
    else:
        if modes is None or any(
            value is not None for value in (unit, best, prices, dataset)
        ):
            raise InputError(
                "--off-policy needs --modes, cheap first, and takes no --unit, "
                "--best, --prices or --dataset."
            )
        names = options.name_list(modes) or []
        table = values_from_log(
            log, names, method=off_policy, features=feature, clip=clip
        )
    write_values(table, out)
    score_files = [] if scores_out is None else write_scores(table, scores_out)
    if table.estimated is not None:
        say(f"deepval: note: {table.estimated}", err=True)
    costs = table.input_costs.get("usd")
    models = [
        {
            "mode": mode,
            "mean_loss": float(table.losses[:, column].mean()),
            "mean_usd": None if costs is None else float(costs[:, column].mean()),
        }
        for column, mode in enumerate(table.modes)
    ]
    if json:
        content = {
            "values": str(out),
            "inputs": len(table),
            "units": len(table.unit_ids),
            "models": models,
        }
        terminal.print_json(
            content
            | {"estimated": table.estimated, "scores": list(map(str, score_files))}
        )
        return
    say(
        f"{out}: {quantity(len(table), 'input')} in "
        f"{quantity(len(table.unit_ids), 'unit')}, models cheap first:"
    )
    for model in models:
        price = "" if costs is None else f", {model['mean_usd']:.3g} USD per call"
        say(f"  {model['mode']}: mean loss {model['mean_loss']:.4g}{price}")
    for path in score_files:
        say(
            f"{path}: scores; check that a router has this number "
            "before it calls a model."
        )


globals()["import"] = import_log  # the name of the command is a Python keyword
