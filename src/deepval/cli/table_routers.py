"""`deepval threshold --table-by`: a table with a mode for each group -> a router."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from deepval.basics.errors import InputError
from deepval.cli import options, terminal
from deepval.cli.terminal import say

if TYPE_CHECKING:
    from deepval.judge.cases import EvaluationData
    from deepval.judge.results import Result
    from deepval.judge.table_router import Shares, TableRouter

Export = Literal["json", "litellm"]


@Parameter(name="*")
@dataclass(frozen=True)
class TableOptions:
    """A router that names a mode for each group, instead of a threshold.

    Attributes:
        table_by: Write a table with the best mode for each value of this column (task,
            tenant, unit) instead of a threshold; it takes no scores.
        keep: The cheapest table that is shown to keep this share of the dearest mode's
            quality, such as 99%, instead of the best at --alpha.
        at_least: The same for a quality per input, such as 0.83, or MODE, or MODE-1pt.
        export: Form of the table's file: json, or litellm for the configuration of a
            LiteLLM proxy.
    """

    table_by: Annotated[str | None, Parameter(group=options.SUBJECT)] = None
    keep: Annotated[str | None, Parameter(group=options.BUDGETS)] = None
    at_least: Annotated[str | None, Parameter(group=options.BUDGETS)] = None
    export: Annotated[Export, Parameter(group=options.OUTPUT)] = "json"

    @property
    def has_floor(self) -> bool:
        """Whether a floor sets the spend."""
        return self.keep is not None or self.at_least is not None

    def check(self, others: Sequence[str]) -> None:
        """Raise where options contradict each other.

        Args:
            others: Stated options that a table has no use for.
        """
        if self.table_by is None:
            if self.has_floor or self.export != "json":
                raise InputError(
                    "--keep, --at-least and --export apply only to --table-by COLUMN: "
                    "give it too, or leave them out."
                )
        elif others:
            raise InputError(
                f"--table-by writes a table, which has no use for {', '.join(others)}: "
                "leave it out."
            )


TABLE_DEFAULTS = TableOptions()


def write_table(
    case: "EvaluationData",
    level: object,
    table: TableOptions,
    *,
    calibration: Sequence[str] | None,
    draws: options.DrawOptions,
    force: bool,
    out: Path | None,
    json: bool,
) -> bool:
    """Choose a table and write it; False where the answer is not to run it.

    Args:
        case: The data.
        level: The budget.
        table: The column, and the floor if there is one.
        calibration: Units that choose the table; all where None.
        draws: The draws.
        force: Whether to write it whatever the answer.
        out: The file.
        json: Whether to print JSON.
    """
    from deepval.basics.files.canonical import plain
    from deepval.basics.files.writing import write_atomically
    from deepval.judge.cases import judge

    column = table.table_by
    assert column is not None
    judged = judge(
        case,
        {},
        [level],  # pyright: ignore[reportArgumentType]
        command=None,
        units=calibration or list(case.table.unit_ids),
        table_by=column,
        keep=table.keep,
        at_least=table.at_least,
        draws=draws.number,
        seed=draws.seed,
    )
    answer = judged.answers[0]
    sentence = f"{answer.sentence} {answer.instead}"
    is_denied = answer.verdict == "do not run"
    if judged.keep is not None:
        sentence = judged.keep.sentence
        is_denied = judged.keep.option is None
    router = _router(judged, column, dict(case.provenance))
    is_written = False
    if out is not None and (force or not is_denied):
        is_written = True
        text = router.to_litellm() if table.export == "litellm" else router.to_json()
        write_atomically(out, text)
    if json:
        content = {
            "answer": plain(judged.keep or answer),
            "groups": plain(router.groups),
            "default": plain(router.default),
            "router": str(out) if is_written else None,
        }
        terminal.print_json(content)
        return force or not is_denied
    say(sentence)
    if is_denied and not force:
        say("No router is written; --force writes it.", err=True)
        return False
    for group, shares in [*router.groups.items(), ("(others)", router.default)]:
        say(f"  {group}: {_words(shares)}")
    if out is not None:
        reader = "deepval.TableRouter.load reads it."
        if table.export == "litellm":
            reader = (
                f"litellm --config {out} serves it, with the {column} as the model."
            )
        say(f"{out}: a mode for each {column}; {reader}")
    return True


def _router(judged: "Result", column: str, about: dict[str, object]) -> "TableRouter":
    """The table that is shown to reach the floor, or the best one of the budget."""
    from deepval.judge.extras.recovery import Fresh
    from deepval.judge.group_tables import GroupTable, table_name
    from deepval.judge.table_router import TableRouter

    name = table_name(column)
    modes = judged.setting.modes
    if judged.keep is not None:
        (option,) = [one for one in judged.keep.families if one.family == name]
        return TableRouter(column, modes, option.shares, option.default, about)
    fresh = judged.fresh
    assert isinstance(fresh, Fresh)
    (policy,) = [one for one in fresh.policies if isinstance(one, GroupTable)]
    groups, default = policy.best(fresh.allowances[0])
    return TableRouter(column, modes, groups, default, about)


def _words(shares: "Shares") -> str:
    """`large`, or `large 37 %, small 63 %`."""
    if len(shares) == 1:
        return next(iter(shares))
    return ", ".join(f"{mode} {100 * share:.0f} %" for mode, share in shares.items())
