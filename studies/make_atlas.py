"""Tables of models on the same inputs -> the tables and pictures of docs/atlas.md and
docs/generated/atlas.md.

    python studies/make_atlas.py ../shared/data docs

Reads every .parquet file of the folder and of its sub-folders `routing` and `navsim`
that `deepval import` reads, and names the others. The cheapest model is paired with
every other one; without prices every two models are paired, the one of higher mean
quality as the dearer. The free score that the table brings along decides which inputs
go to the dearer model: low confidence of the cheap model where the table has it, else
the first further column. Tables with prices also judge a choice among all models.
Nothing is fitted but the scores per model of that choice, which are out of fold. No
name of a file, data set or model is written here.
"""

import argparse
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

import deepval
from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files.writing import write_atomically
from deepval.judge.results.records import Row
from deepval.judge.tables.logs.writing import attribute_scores

PAGES = {"atlas.md": ("counts",), "generated/atlas.md": ("pairs", "choices")}
FOLDERS = ("", "routing", "navsim")
ALPHA, FOLDS, BINS = 0.2, 5, 10
BEFORE_ANY_CALL = "prompt_length"
"""A score that is there before any model is called, so that a router calls one model
only (skipping).
"""


class Pair(NamedTuple):
    """A cheap and a dear model, judged with one score."""

    table: str
    cheap: str
    dear: str
    inputs: int
    units: int
    priced: bool
    affected: float
    harm_rate: float
    harm_ratio: float
    harms: bool
    score: str
    auc: tuple[float, float, float]
    always: float
    random: float
    router: float
    ndg: tuple[float, float, float]
    over_mixture: tuple[float, float, float]


class Choice(NamedTuple):
    """One of K models per input, judged with out-of-fold scores per model."""

    table: str
    models: int
    row: Row
    mixture: float
    escalated: float


def read_tables(data: Path) -> Iterable[tuple[str, deepval.ValueTable]]:
    """The tables of the folder by the names of their files, models cheap first."""
    for file in (
        file for name in FOLDERS for file in sorted((data / name).glob("*.parquet"))
    ):
        try:
            with warnings.catch_warnings(record=True) as notes:
                warnings.simplefilter("always")
                table = deepval.import_router_log(file)
        except InputError as error:
            print(f"Left out: {error}")
            continue
        for note in notes:
            print(f"note: {note.message}")
        yield file.stem, table


def free_score(table: deepval.ValueTable) -> tuple[str, np.ndarray]:
    """Name and values of the free score that a table brings along."""
    scores = attribute_scores(table)
    name = "low_confidence" if "low_confidence" in scores else next(iter(scores))
    return name, scores[name]


def budget(table: deepval.ValueTable, score: str, names: Sequence[str]) -> Any:
    """20 % of the money of always calling the dearest model; of the inputs where there
    are no prices.
    """
    if not table.input_costs:
        return deepval.Selection(ALPHA)
    prices = {"allocators": {name: {"usd": 0.0} for name in names}}
    return deepval.Money(ALPHA, prices, accounting(score))


def accounting(score: str) -> Literal["cascade", "skipping"]:
    """Skipping where the score needs no call; cascade where the cheap model ran
    first.
    """
    return "skipping" if score == BEFORE_ANY_CALL else "cascade"


def pairs(name: str, table: deepval.ValueTable) -> Iterable[Pair]:
    """The cheapest model of a table against each of the others; without prices, each
    against every better one.
    """
    score, values = free_score(table)
    for cheap, dear in combinations(table.modes, 2):
        if table.input_costs and cheap != table.modes[0]:
            continue
        pair = table.with_modes([cheap, dear])
        if not pair.affected or not pair.cheap_loss > 0:
            print(
                f"Left out: {name}: {cheap} and {dear} have the same losses, or the "
                "first has none."
            )
            continue
        result = deepval.evaluate(pair, {score: values}, [budget(pair, score, [score])])
        row, random = result.row(score), result.row("random")
        assert result.samples is not None
        gain, chance = (
            result.samples.gain[result.rows.index(item)] for item in (row, random)
        )
        mixture = np.maximum(chance, 0.0)  # never escalating is a mixture, too
        over = np.percentile((gain - mixture) / result.samples.cheap_loss, (2.5, 97.5))
        yield Pair(
            *(
                name,
                short(cheap),
                short(dear),
                len(pair),
                len(pair.unit_ids),
                bool(pair.input_costs),
            ),
            *(
                pair.affected / len(pair),
                pair.harm_rate,
                pair.harm_ratio,
                harms(pair),
                score,
                auc(pair, values),
            ),
            *(
                pair.full_gain / pair.cheap_loss,
                random["gain_share"],
                row["gain_share"],
                interval(row, "ndg"),
            ),
            (
                (row["gain"] - max(random["gain"], 0.0)) / pair.cheap_loss,
                *over.tolist(),
            ),
        )


def harms(table: deepval.ValueTable) -> bool:
    """Whether always calling the dear model is worse than never: a normal 95 % interval
    of the gain over units.
    """
    gain = np.bincount(table.unit, weights=table.decision_values)
    return bool(gain.sum() + 1.96 * np.sqrt(len(gain)) * gain.std() < 0)


def auc(
    table: deepval.ValueTable, score: np.ndarray, draws: int = 1000
) -> tuple[float, float, float]:
    """Probability that a helped input has a higher score than a harmed one, ties half,
    with an interval over units.
    """
    values = table.decision_values
    affected = np.flatnonzero(values)
    affected = affected[np.argsort(score[affected], kind="stable")]
    helped, unit = values[affected] > 0, table.unit[affected]
    # where each group of equal scores begins
    first = np.flatnonzero(np.diff(score[affected], prepend=np.nan))

    def of(weight: np.ndarray) -> float:
        better, worse = (
            np.add.reduceat(weight * part, first) for part in (helped, ~helped)
        )
        below = np.cumsum(worse) - worse / 2
        return (
            float((better * below).sum() / (better.sum() * worse.sum()))
            if better.any() and worse.any()
            else np.nan
        )

    value = of(np.ones(len(affected)))
    if np.isnan(value):
        return np.nan, np.nan, np.nan
    rng = np.random.default_rng(0)
    number = len(table.unit_ids)
    drawn = [
        of(np.bincount(rng.integers(0, number, number), minlength=number)[unit])
        for _ in range(draws)
    ]
    return value, *np.nanpercentile(drawn, (2.5, 97.5)).tolist()


def choice(name: str, table: deepval.ValueTable) -> Choice:
    """All models of a table: a model's value is predicted by its mean in the decile of
    the score, out of fold.
    """
    score, values = free_score(table)
    fold = np.random.default_rng(0).permutation(len(table.unit_ids))[table.unit] % FOLDS
    predicted = np.zeros((len(table), len(table.modes) - 1))
    for test in range(FOLDS):
        others = fold != test
        cuts = np.unique(np.quantile(values[others], np.linspace(0, 1, BINS + 1)[1:-1]))
        decile = np.searchsorted(cuts, values, side="right")
        total = np.zeros((len(cuts) + 1, predicted.shape[1]))
        np.add.at(total, decile[others], table.mode_values[others, 1:])
        number = np.bincount(decile[others], minlength=len(cuts) + 1)[:, None]
        predicted[~others] = (total / np.maximum(number, 1))[decile[~others]]
    result = deepval.evaluate(
        table, {"deciles": predicted}, [budget(table, score, ["deciles"])]
    )
    row, mixture = result.row("deciles"), result.row("random-ladder")
    share = row["escalated"] / len(table)
    return Choice(name, len(table.modes), row, mixture["gain_share"], share)


def interval(row: Mapping[str, Any], field: str) -> tuple[float, float, float]:
    """A field of a row with its bounds."""
    value, low, high = (
        np.nan if part is None else part
        for part in (row[field], row[f"{field}_lo"], row[f"{field}_hi"])
    )
    return value, low, high


def short(model: str) -> str:
    """The name of a model without its publisher."""
    return model.rpartition("/")[2]


def around(estimate: Sequence[float], digits: int = 2, scale: float = 1.0) -> str:
    """A number with its interval."""
    value, low, high = (figure(scale * part, f".{digits}f") for part in estimate)
    return f"{value} [{low}, {high}]"


def figure(number: float, form: str) -> str:
    """A number in this form; a dash where it is undefined."""
    return "–" if np.isnan(number) else f"{number + 0.0:{form}}"


def verdict(difference: Sequence[float]) -> str:
    """Whether a router beats the best mixture."""
    return "yes" if difference[1] > 0 else "worse" if difference[2] < 0 else "open"


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table without padding."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(
        f"|{'|'.join(str(cell).replace('|', chr(92) + '|') for cell in line)}|\n"
        for line in lines
    )


def pair_table(found: Sequence[Pair]) -> str:
    """A line per pair, a sub-heading per table."""
    lines = []
    for name in dict.fromkeys(pair.table for pair in found):
        mine = [pair for pair in found if pair.table == name]
        one = mine[0]
        units = "rows" if one.units == one.inputs else f"{one.units} units"
        cheap = f"{one.cheap} → ...; " if one.priced else ""
        lines.append(
            [f"**{name}**: {cheap}{one.inputs:,}, {units}; {one.score}"] + [""] * 8
        )
        for p in mine:
            resolved = "*" if p.auc[1] > 0.5 or p.auc[2] < 0.5 else ""
            lines.append(
                [
                    p.dear if p.priced else f"{p.cheap} → {p.dear}",
                    f"{100 * p.affected:.0f}",
                    f"{100 * p.harm_rate:.0f}",
                    figure(p.harm_ratio, ".2f"),
                    f"{figure(p.auc[0], '.2f')}{resolved}",
                    f"{100 * p.always:+.0f}",
                    f"{100 * p.random:+.0f}",
                    f"{100 * p.router:+.0f}",
                    f"{around(p.ndg)} {verdict(p.over_mixture)}".removesuffix(" open"),
                ]
            )
    header = [
        "pair",
        "affected",
        "harm",
        "ratio",
        "AUC",
        "always",
        "random",
        "router",
        "nDG; beats mixture?",
    ]
    return markdown(header, lines)


def count_table(found: Sequence[Pair]) -> str:
    """Counts over pairs, by score and in all."""
    groups = {
        name: [pair for pair in found if pair.score == name]
        for name in dict.fromkeys(p.score for p in found)
    }
    groups["all"] = list(found)
    lines = []
    for name, mine in groups.items():
        ratios, rates = (
            [getattr(pair, field) for pair in mine]
            for field in ("harm_ratio", "harm_rate")
        )
        verdicts = [verdict(pair.over_mixture) for pair in mine]
        lines.append(
            [
                name,
                len(mine),
                (
                    f"{100 * np.median(rates):.0f} "
                    f"({100 * min(rates):.0f}-{100 * max(rates):.0f})"
                ),
                (
                    f"{np.nanmedian(ratios):.2f} "
                    f"({np.nanmin(ratios):.2f}-{np.nanmax(ratios):.2f})"
                ),
                (
                    f"{sum(ratio > 1 for ratio in ratios)} "
                    f"({sum(pair.harms for pair in mine)})"
                ),
                sum(pair.auc[1] > 0.5 for pair in mine),
                sum(pair.auc[2] < 0.5 for pair in mine),
                verdicts.count("yes"),
                verdicts.count("worse"),
                verdicts.count("open"),
                f"{np.nanmedian([pair.ndg[0] for pair in mine]):.2f}",
            ]
        )
    header = [
        "score",
        "pairs",
        "harm rate %, median (range)",
        "harm ratio, median (range)",
        "ratio > 1 (resolved)",
    ]
    header += ["AUC > 0.5", "AUC < 0.5", "beats mixture", "worse", "open", "median nDG"]
    return markdown(header, lines)


def choice_table(found: Sequence[Choice]) -> str:
    """A line per table with prices."""
    lines = [
        [
            item.table,
            item.models,
            f"{100 * item.mixture:+.1f}",
            f"{100 * item.row['gain_share']:+.1f}",
            around(interval(item.row, "versus_random"), 1, 100),
            around(interval(item.row, "ndg")),
            item.row.verdict,
            f"{100 * item.escalated:.0f}",
        ]
        for item in found
    ]
    header = [
        "table",
        "K",
        "mixture",
        "router",
        "difference",
        "nDG of ladder",
        "verdict",
    ]
    return markdown([*header, "not cheapest %"], lines)


def draw(found: Sequence[Pair], folder: Path) -> None:
    """The two pictures of the page."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    scores = list(dict.fromkeys(pair.score for pair in found))
    colours = dict(
        zip(
            scores,
            ("#1b6ca8", "#c8553d", "#4f7d3a", "#7a5195", "#555555"),
            strict=False,
        )
    )
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for score in scores:
        mine = [pair for pair in found if pair.score == score]
        axes.scatter(
            [100 * p.affected for p in mine],
            [p.harm_ratio for p in mine],
            s=22,
            c=colours[score],
            label=score,
        )
    axes.axhline(1, color="#888888", linewidth=0.8)
    axes.set(
        xlabel="affected inputs, %",
        ylabel="harm ratio (log scale)",
        yscale="log",
        xlim=(0, None),
    )
    axes.legend(
        title="free score of the table", frameon=False, fontsize=8, title_fontsize=8
    )
    figure.savefig(folder / "atlas-harm.png", dpi=100, metadata={"Software": None})
    widths = [max(20, sum(pair.score == score for pair in found)) for score in scores]
    figure, panels = plt.subplots(
        1,
        len(scores),
        figsize=(8, 3.4),
        sharey=True,
        layout="constrained",
        width_ratios=widths,
        squeeze=False,
    )
    for score, axes in zip(scores, panels[0], strict=True):
        mine = sorted(
            (pair for pair in found if pair.score == score),
            key=lambda pair: pair.ndg[0],
        )
        for x, pair in enumerate(mine):
            axes.plot([x, x], pair.ndg[1:], color=colours[score], linewidth=1)
            filled = colours[score] if verdict(pair.over_mixture) == "yes" else "white"
            axes.plot(
                x,
                pair.ndg[0],
                "o",
                markersize=4.5,
                color=colours[score],
                markerfacecolor=filled,
            )
        axes.axhline(0, color="#888888", linewidth=0.8)
        axes.set_title(score, fontsize=9)
        axes.set_xticks([])
    panels[0][0].set(ylabel="nDG at 20 %", ylim=(-0.75, 1))
    figure.savefig(folder / "atlas-routers.png", dpi=100, metadata={"Software": None})


def renewed(page: str, tables: Mapping[str, str]) -> str:
    """The page with every table between `<!-- table NAME -->` and `<!-- end -->`
    replaced.
    """
    for name, table in tables.items():
        head, begin, rest = page.partition(f"<!-- table {name} -->\n")
        if not begin:
            raise InputError(
                f"The page must have the mark <!-- table {name} -->; it has none."
            )
        page = head + begin + "\n" + table + "\n" + rest[rest.index("<!-- end -->") :]
    return page


def main() -> None:
    """Renew the page and its pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("docs", type=Path)
    arguments = parser.parse_args()
    all_pairs: list[Pair] = []
    choices: list[Choice] = []
    for name, table in read_tables(arguments.data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            if not attribute_scores(table):
                print(
                    f"Left out: {name} has no confidence of the cheap model, prompt "
                    "length or other number per input."
                )
                continue
            all_pairs += pairs(name, table)
            if table.input_costs and len(table.modes) > 2 and table.cheap_loss > 0:
                choices.append(choice(name, table))
        print(f"{name}: {time.process_time():.0f} s", flush=True)
    if not all_pairs:
        raise SystemExit(
            f"{arguments.data}: must hold tables of models, itself or in routing or "
            "navsim; found none."
        )
    tables = {
        "counts": count_table(all_pairs),
        "pairs": pair_table(all_pairs),
        "choices": choice_table(choices),
    }
    for page, names in PAGES.items():
        text = (arguments.docs / page).read_text(encoding="utf-8")
        write_atomically(
            arguments.docs / page, renewed(text, {name: tables[name] for name in names})
        )
    (arguments.docs / "pictures").mkdir(exist_ok=True)
    draw(all_pairs, arguments.docs / "pictures")
    print(tables["counts"])
    print(
        f"{len(all_pairs)} pairs, {len(choices)} tables with a choice among all models"
    )
    print(f"{time.process_time():.0f} s of CPU time")


if __name__ == "__main__":
    main()
