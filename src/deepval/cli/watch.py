"""`deepval watch`: further shadowed inputs -> the state of every declared claim, with
an alarm where one fails.
"""

import math
import warnings
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from deepval.basics.errors import InputError, InputWarning, few
from deepval.basics.files import reading
from deepval.cli import options, terminal
from deepval.cli.compare import FAILED_GATE
from deepval.cli.terminal import say

if TYPE_CHECKING:
    from deepval.judge.watching import Watch

RISK = 0.01
HORIZON = 1000
"""Defaults of the library (tests/cli)."""
TOP = 1.15
"""Height of a drawing, as a share of the way to an alarm."""
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #1c2329; background: #faf8f4; } svg { width: 100%; height: 11rem; border: 1px solid #e4e0d7; }
path, line { vector-effect: non-scaling-stroke; } line { stroke: #b54d14; stroke-dasharray: 6 4; }
path { fill: none; stroke: #0072b2; stroke-width: 2; } svg { background: #fff; }"""  # noqa: E501


def watch(
    state: Path,
    rows: Path | None = None,
    /,
    *,
    reference: Annotated[Path | None, Parameter(group=options.BEGIN)] = None,
    scores: Annotated[str | None, Parameter(alias="-s", group=options.BEGIN)] = None,
    alpha: Annotated[
        float | None, Parameter(validator=options.Between(0, 1), group=options.BEGIN)
    ] = None,
    claim: Annotated[tuple[str, ...], Parameter(group=options.BEGIN)] = (),
    cap: Annotated[
        float | None,
        Parameter(validator=options.Between(1e-12, 1e12), group=options.BEGIN),
    ] = None,
    risk: Annotated[
        float, Parameter(validator=options.Between(1e-12, 0.5), group=options.BEGIN)
    ] = RISK,
    horizon: Annotated[int, options.whole(1, 10**9, group=options.BEGIN)] = HORIZON,
    blocks: Annotated[int | None, options.whole(1, 10**6, group=options.BEGIN)] = None,
    end: bool = False,
    skip_seen: bool = False,
    page: Path | None = None,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> int:
    """Inputs on which both modes ran arrive unit by unit; a unit is complete when
    another one begins. Looking often does not raise the number of false alarms. Exit
    code 3: alarm; 0: quiet; 2: bad input.

    Begin: deepval watch state.json --reference values.csv -s mine.csv --alpha 0.2

    Example: deepval watch state.json new.csv --page watch.html

    Args:
        state: File with the state of the watch (.json).
        rows: New shadowed inputs (.csv, .parquet, .jsonl), in the order of arrival:
            unit, input, loss_<mode>, escalated (0 or 1) or score, [propensity].
        reference: Such rows from a good time; with -s a table.
        scores: Its scores: FILE, or a name of a cell.
        alpha: Share that its scores escalate. Default: 0.2.
        claim: gain>=X over random, harm<=X (shares of the reference's all-cheap loss
            per input), rate=X+-Y. Repeatable. Default: 0.8 of the reference's gain,
            1.25 of its harm, 2 points around its rate; wider if it has few units.
        cap: The most that one unit counts for. Default: what 80 % of the reference's
            units stay below.
        risk: Chance of a false alarm within --horizon.
        horizon: Number of units.
        blocks: Units in a row that count as one; 1 declares that units are independent.
            Default: from the reference, in time order.
        end: The last unit is complete.
        skip_seen: Skip rows that were read before: the file has grown.
        page: Draw the path of the evidence in this HTML file.
    """
    from deepval.basics.files.writing import (
        check_writable,
        lock_of_file,
        write_atomically,
    )
    from deepval.judge.watching import Watch

    check_writable(state)
    if rows is None and (skip_seen or (end and reference is not None)):
        raise InputError(
            "--skip-seen and, of a new watch, --end need rows: name the file of "
            "shadowed inputs."
        )
    if page is not None:
        check_writable(page)
    with lock_of_file(
        state, f"{state}: another process reads into it now: wait for it."
    ):
        if reference is not None:
            if reading.exists(state):
                raise InputError(
                    f"{state}: a watch begins with a new file, and this one exists: "
                    "name another file."
                )
            source = str(reference) if scores is None else _scored(reference, scores)
            now = Watch.begin(
                source,
                claim,
                alpha=alpha,
                cap=cap,
                risk=risk,
                horizon=horizon,
                blocks=blocks,
            )
        elif (
            claim
            or scores
            or (alpha, cap, blocks) != (None, None, None)
            or (risk, horizon) != (RISK, HORIZON)
        ):
            raise InputError(
                "--claim, --scores, --alpha, --cap, --risk, --horizon and --blocks "
                "begin a watch: give --reference, too."
            )
        elif not reading.exists(state):
            raise InputError(
                f"{state}: no such file; begin the watch with --reference."
            )
        else:
            now = Watch.load(state)
        if rows is not None or end:
            now = now.read(
                None if rows is None else str(rows), end=end, skip_seen=skip_seen
            )
        # The page first: the same command can be run again if one of them has no room,
        # because rows count as read only in the state.
        if page is not None:
            write_atomically(page, _page(now))
        now.save(state)
    if printing.is_json:
        content = {
            "alarm": now.alarm,
            "claims": [one._asdict() for one in now.states],
            "promise": now.promise,
        }
        terminal.print_json(content | {"open_inputs": len(now.rows)})
    else:
        for one in now.states:
            say(one.sentence)
        say(now.promise)
    return FAILED_GATE if now.alarm else 0


def _scored(reference: Path, scores: str) -> dict[str, Any]:
    """The rows of a cell or a values file with the scores of one allocator."""
    import numpy as np

    case = options.SubjectOptions().case(reference)
    ((name, own),) = case.scores(options.named_files([scores])).items()
    if own.modes:
        raise InputError(
            f"{name}: a watch needs one score per input; "
            f"found scores of {few(own.modes)}."
        )
    if not own.covered.all():
        note = (
            f"{name}: {np.count_nonzero(~own.covered):,} of {len(case.table):,} inputs "
            "have no score and are left out."
        )
        warnings.warn(InputWarning(note), stacklevel=2)
    table = case.table.keep(own.covered)
    losses = {
        f"loss_{mode}": column
        for mode, column in zip(table.modes, table.losses.T, strict=True)
    }
    return {
        "unit": table.unit_ids[table.unit],
        "input": table.input,
        "score": own.values[own.covered],
        **losses,
    }


def _page(now: "Watch") -> str:
    """The path of the evidence of every claim, drawn on a logarithmic scale."""
    import numpy as np

    from deepval.judge.report.forms import content_policy

    parts = []
    for one in now.states:
        ways = [
            0.0,
            *(np.log1p(now.paths[one.claim]) / math.log1p(one.enough)).tolist(),
        ]
        points = [
            f"{block * now.block} {TOP - min(way, TOP):.4f}"
            for block, way in enumerate(ways)
        ]
        parts.append(
            f"<h2>{escape(one.claim)}</h2><p>{escape(one.sentence)}</p>"
            f'<svg viewBox="0 0 {max(one.units, 1)} {TOP}" preserveAspectRatio="none" '
            f'role="img" aria-label="evidence against {escape(one.claim)} by unit">'
            f'<line x2="100%" y1="{TOP - 1:.2f}" y2="{TOP - 1:.2f}"/>'
            f'<path d="M{" L".join(points)}"/></svg>'
        )
    policy = content_policy(styles=[STYLE], images="data:")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<title>deepval watch</title><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body>"
        f"<h1>{'Alarm' if now.alarm else 'Quiet'}</h1><p>{escape(now.promise)} The "
        "dashed line is an alarm; the scale is "
        f"logarithmic.</p>{''.join(parts)}</body></html>\n"
    )
