"""As good, for less: what is stated on some requests, and what is so on the others.

Public tables of language models are split 200 times. On the first part a floor is named
and the cheapest way to keep it is asked for; on the rest it is missed or not. Beside
our answer stand those of two packages that answer the same question,
`toolkit-cost-optimizer` 1.0 and `llm-route-audit` 0.3.3, where they can be imported.

    python studies/as_good_for_less.py real ../shared/data --splits 200
    python studies/as_good_for_less.py simulated --worlds 150

The second command draws worlds of known truth, and counts how often a floor that is
stated to hold is missed by all inputs of its world. The bounds were settled while
looking at these tables and worlds, so each command has a check on others, which were
looked at once, when nothing was changed any more:

    python studies/as_good_for_less.py check ../shared/data --splits 200
    python studies/as_good_for_less.py simulated --worlds 150 --seed 100000
"""

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import deepval
from deepval.judge.allowances import Money, allowance_on
from deepval.judge.answers.floors import Floor
from deepval.judge.answers.keep import ERROR, Family, families, walk
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.draws import make_draws
from deepval.judge.mode_charges import Charged
from deepval.judge.policies import Policy, Ranking
from deepval.judge.tables.costs import Costs
from deepval.judge.tables.scores import align_all

SIX = (
    "mistralai/mistral-7b-chat",
    "mistralai/mixtral-8x7b-chat",
    "zero-one-ai/Yi-34B-Chat",
    "gpt-3.5-turbo-1106",
    "claude-v1",
    "gpt-4-1106-preview",
)
ASSUMED = {
    "itpossible/Chinese-Mistral-7B-v0.1": 0.2,
    "mistralai/Mistral-7B-v0.1": 0.3,
    "meta-llama/Meta-Llama-3-8B": 0.4,
    "cognitivecomputations/dolphin-2.6-mistral-7b": 0.5,
    "HuggingFaceH4/zephyr-7b-beta": 0.6,
    "meta-math/MetaMath-Mistral-7B": 0.8,
    "cognitivecomputations/dolphin-2.9-llama3-8b": 1.0,
}
"""Prices of RouterDC's models, which has none: assumed, rising with mean quality."""
FLOORS = (0.99, 0.95, 0.92)
SIZES = (300, 1000)
LEAST_GRADED = 10
LEAST_SCORES = 30
"""Answers that the two packages ask for, as they come."""


@dataclass(frozen=True, eq=False)
class Log:
    """Requests with the quality and the price of every model, the dearest last."""

    models: tuple[str, ...]
    group: np.ndarray
    unit: np.ndarray
    quality: np.ndarray
    price: np.ndarray
    score: np.ndarray

    def __len__(self) -> int:
        return len(self.quality)

    def keep(self, rows: np.ndarray) -> "Log":
        """Some of the requests."""
        return Log(
            self.models,
            self.group[rows],
            self.unit[rows],
            self.quality[rows],
            self.price[rows],
            self.score[rows],
        )

    @property
    def table(self) -> deepval.ValueTable:
        """The same as a table of rewards and prices."""
        return deepval.ValueTable.from_columns(
            unit=self.unit,
            rewards=dict(zip(self.models, self.quality.T, strict=True)),
            input_costs={"usd": dict(zip(self.models, self.price.T, strict=True))},
            attributes={"task": self.group},
        )


# --- what each of them would run ------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Routing:
    """What to run: the share of each model by group, or a threshold on a score."""

    shares: Mapping[str, np.ndarray]
    default: np.ndarray
    threshold: float | None = None
    base: int = 0

    def on(self, log: Log) -> tuple[float, float]:
        """Quality and price per request, in shares of the dearest model."""
        shares = np.stack([self.shares.get(one, self.default) for one in log.group])
        if self.threshold is not None:
            number = np.where(log.score >= self.threshold, -1, self.base)
            shares = np.eye(len(log.models))[number]
        quality = (shares * log.quality).sum() / log.quality[:, -1].sum()
        price = (shares * log.price).sum() / log.price[:, -1].sum()
        return float(quality), float(price)


def only(models: int, number: int = -1) -> np.ndarray:
    """One model for all requests: the dearest where none is named."""
    return np.eye(models)[number]


def ours(
    log: Log, floors: tuple[float, ...], *, by_task: bool, with_score: bool, seed: int
) -> list[Routing]:
    """The cheapest option of all families that is shown to keep each floor."""
    table = log.table
    drawn = make_draws(len(table.unit_ids), 1000, seed)
    bootstrap = Bootstrap.of(table, drawn, leave_out=False)
    free = Costs({}, {"mine": {"usd": 0.0}}, {})
    allowance = allowance_on(Money(0.2, free, accounting="skipping"), table)
    charged = Charged.of(table, allowance)
    policies: list[Policy] = []
    if with_score:
        (aligned,) = align_all(table, {"mine": log.score})
        policies.append(Ranking.of(table, aligned))
    columns = ("task",) if by_task else ()
    found = families(bootstrap, charged, allowance, policies, columns)
    routings = []
    for share in floors:
        floor = Floor(share=share, mode=table.modes[charged.dearest])
        spend = 1.0
        best = Routing({}, only(len(log.models)))
        for family in found:
            error = ERROR / len(found)
            done = walk(bootstrap, charged, family, floor, error=error)
            at = done.passed - 1
            if at >= 0 and done.spend[at] < spend:
                spend = done.spend[at]
                best = routing_of(log, family, at)
        routings.append(best)
    return routings


def routing_of(log: Log, family: Family, at: int) -> Routing:
    """An option of a family as something that runs on other requests."""
    if family.tables is not None and family.groups is not None:
        shares = family.tables.shares[at]
        rows = zip(family.groups.labels, family.tables.row, strict=True)
        by_group = {label: shares[row] for label, row in rows}
        if family.groups.column is None:
            return Routing({}, shares[0])
        return Routing(by_group, shares[-1])
    assert family.escalated is not None
    assert family.base is not None
    number = round(family.escalated[at] * len(log))
    highest = np.sort(log.score)[::-1]
    threshold = highest[number - 1] if number else np.inf
    return Routing({}, only(len(log.models)), float(threshold), family.base[at])


def of_toolkit(log: Log, floors: tuple[float, ...], confidence: float | None):
    """The policy that toolkit-cost-optimizer chooses; None where it has no answer."""
    from toolkit_cost_latency_opt import routing as toolkit

    groups = np.unique(log.group)
    scores = {}
    options = {}
    for group in groups:
        inside = log.group == group
        for number, model in enumerate(log.models):
            scores[str(group), model] = log.quality[inside, number].tolist()
    estimates = toolkit.build_estimates(scores)
    for group in groups:
        inside = log.group == group
        options[str(group)] = []
        for number, model in enumerate(log.models):
            found = toolkit.estimate_for(estimates, str(group), model, LEAST_SCORES)
            if found is not None:
                cost = float(log.price[inside, number].sum())
                option = toolkit.Option(str(group), model, cost, found)
                options[str(group)].append(option)
    weights = {str(group): float(np.mean(log.group == group)) for group in groups}
    if not all(options.values()):
        return [None] * len(floors)
    policies = toolkit.enumerate_policies(options, weights, 100_000)
    chosen = []
    for share in floors:
        floor = share * float(log.quality[:, -1].mean())
        policy = toolkit.choose(policies, floor, confidence)
        routing = None
        if policy is not None:
            shares = {
                group: only(len(log.models), log.models.index(model))
                for group, model in policy.mapping().items()
            }
            routing = Routing(shares, only(len(log.models)))
        chosen.append(routing)
    return chosen


def of_audit(log: Log, floors: tuple[float, ...]) -> list[Routing]:
    """The model that llm-route-audit chooses for each task."""
    from llm_route_audit import report

    routings = []
    for share in floors:
        shares = {}
        for group in np.unique(log.group):
            inside = log.group == group
            options = []
            for number, model in enumerate(log.models):
                option = report.OptionStats(model, model)
                option.graded = int(inside.sum())
                option.passed = int(log.quality[inside, number].sum())
                option.cost = float(log.price[inside, number].sum())
                option.original_cost = float(log.price[inside, -1].sum())
                options.append(option)
            original = options.pop()
            # Its rule has no public name; the report around it needs token counts.
            choose = vars(report)["_choose"]
            best, _ = choose(original, options, share, LEAST_GRADED)
            shares[str(group)] = only(len(log.models), log.models.index(best.model))
        routings.append(Routing(shares, only(len(log.models))))
    return routings


# --- real tables ----------------------------------------------------------------------


def real_logs(folder: Path) -> Iterator[tuple[str, Log]]:
    """The three tables, each as `deepval import` reads it."""
    rng = np.random.default_rng(7)
    parts = defaultdict(list)
    for task in ("arc_challenge", "winograde"):
        for part in ("test", "train"):
            file = folder / "routing" / f"routerbench_zs_{task}_{part}.parquet"
            table = deepval.import_router_log(file, models=SIX)
            parts["quality"].append(1 - table.losses)
            parts["price"].append(table.input_costs["usd"])
            parts["group"].append(np.full(len(table), task))
            parts["length"].append(table.attributes["prompt_length"])
    columns = {name: np.concatenate(found) for name, found in parts.items()}
    gain = columns["quality"][:, -1] - columns["quality"][:, :3].mean(axis=1)
    noisy = gain + rng.normal(0, 0.8, len(gain))
    whole = Log(
        SIX,
        columns["group"],
        np.arange(len(gain)),
        columns["quality"],
        columns["price"],
        noisy,
    )
    yield "RouterBench by task", whole
    yield (
        "RouterBench winograde",
        whole.keep(np.flatnonzero(whole.group == "winograde")),
    )
    table = deepval.import_router_log(folder / "routing" / "routerdc_7models.parquet")
    models = tuple(ASSUMED)
    quality = 1 - table.with_modes(models).losses
    price = np.tile(list(ASSUMED.values()), (len(table), 1))
    gain = quality[:, -1] - quality[:, :3].mean(axis=1)
    yield (
        "RouterDC",
        Log(
            models,
            table.unit_ids[table.unit],
            np.arange(len(table)),
            quality,
            price,
            gain + rng.normal(0, 0.8, len(gain)),
        ),
    )


def check_logs(folder: Path) -> Iterator[tuple[str, Log]]:
    """Tables on which nothing was settled; two have a score that is really at hand."""
    routing = folder / "routing"
    table = deepval.import_router_log(routing / "routellm_mmlu_gsm8k.parquet")
    price = np.tile([0.1, 1.0], (len(table), 1))
    length = table.attributes["prompt_length"].astype(float)
    task = table.unit_ids[table.unit]
    rows = np.arange(len(table))
    yield (
        "RouteLLM (prices assumed, 0.1 and 1; score: length of the prompt)",
        Log(table.modes, task, rows, 1 - table.losses, price, length),
    )
    for name in ("SHOP", "FLUENT"):
        table = deepval.import_router_log(
            routing / f"frugalml_{name}.parquet",
            prices=routing / "frugalml_costs.csv",
            dataset=name,
        )
        rows = np.arange(len(table))
        price = table.input_costs["usd"]
        dearest = int(price.mean(axis=0).argmax())
        order = [*(m for m in range(len(table.modes)) if m != dearest), dearest]
        unsure = -table.attributes["confidence"].astype(float)
        yield (
            f"FrugalML {name} (score: low confidence of the free model)",
            Log(
                tuple(table.modes[m] for m in order),
                np.full(len(table), "all"),
                rows,
                1 - table.losses[:, order],
                price[:, order],
                unsure,
            ),
        )


def in_sample(log: Log, rng: np.random.Generator, size: int) -> tuple[float, float]:
    """Quality of a table by task where it was chosen, and on other requests."""
    order = rng.permutation(len(log))
    chosen = log.keep(order[:size])
    other = log.keep(order[size:])
    from deepval.judge.group_tables import Groups, Tables

    table = chosen.table
    groups = Groups.by(table, "task")
    spend = np.array([0.5 * chosen.price[:, -1].mean()])
    value = chosen.quality - chosen.quality[:, :1]
    tables = Tables.fit(groups.of, len(groups.labels), value, chosen.price, spend)
    rows = zip(groups.labels, tables.row, strict=True)
    routing = Routing(
        {label: tables.shares[0, row] for label, row in rows}, tables.shares[0, -1]
    )
    return routing.on(chosen)[0], routing.on(other)[0]


def real(logs: Iterator[tuple[str, Log]], splits: int) -> None:
    """How often each misses the floor on the other requests, and what it spends."""
    for name, log in logs:
        for size in SIZES:
            # Fewer other requests than these would judge by chance.
            if 2 * size > len(log):
                continue
            began = time.perf_counter()
            results: dict[tuple[str, float], list[tuple[bool, float, bool]]] = (
                defaultdict(list)
            )
            optimism = []
            for split in range(splits):
                rng = np.random.default_rng(split)
                order = rng.permutation(len(log))
                chosen = log.keep(order[:size])
                other = log.keep(order[size:])
                for method, routings in answers(chosen, split).items():
                    for share, routing in zip(FLOORS, routings, strict=True):
                        quality, price = 1.0, 1.0
                        if routing is not None:
                            quality, price = routing.on(other)
                        missed = quality < share - 1e-12
                        results[method, share].append((missed, price, routing is None))
                optimism.append(in_sample(log, rng, size))
            seconds = time.perf_counter() - began
            print(f"\n{name}, {size} requests of {len(log)} ({seconds:.0f} s)\n")
            print(
                "| floor | answer | missed | spend | no answer |\n|---|---|---|---|---|"
            )
            for (method, share), found in sorted(results.items(), key=str):
                missed, price, none = np.mean(np.array(found, dtype=float), axis=0)
                print(
                    f"| {share} | {method} | {100 * missed:.1f} % | {price:.2f} | "
                    f"{100 * none:.0f} % |"
                )
            there, here = np.mean(optimism, axis=0)
            print(
                f"\nA table by task at half of the money keeps {100 * there:.1f} % "
                f"where it was chosen, {100 * here:.1f} % of other requests.",
                flush=True,
            )


def answers(log: Log, seed: int) -> dict[str, list[Routing | None]]:
    """The answers of all methods; of the packages, where they are installed."""
    found: dict[str, list[Routing | None]] = {}
    found["a table by task"] = list(
        ours(log, FLOORS, by_task=True, with_score=False, seed=seed)
    )
    found["and a score"] = list(
        ours(log, FLOORS, by_task=True, with_score=True, seed=seed)
    )
    try:
        found["llm-route-audit"] = list(of_audit(log, FLOORS))
        found["toolkit"] = of_toolkit(log, FLOORS, None)
        found["toolkit, --confidence 0.95"] = of_toolkit(log, FLOORS, 0.95)
    except (ImportError, ValueError) as error:
        if str(error) not in told:
            told.add(str(error))
            print(error, file=sys.stderr)
    return found


told: set[str] = set()


# --- worlds of known truth ------------------------------------------------------------

WORLDS = (
    ("single", 300, 1),
    ("single", 300, 12),
    ("even", 30, 6),
    ("uneven", 40, 6),
    ("uneven", 150, 6),
    ("single", 1000, 12),
)


def world(
    rng: np.random.Generator, kind: str, units: int, groups: int, seed: int
) -> Log:
    """Right and wrong answers of four models that share how hard a request is."""
    sizes = np.ones(units, dtype=int)
    if kind == "even":
        sizes = np.full(units, 10)
    elif kind == "uneven":
        sizes = np.maximum(1, np.round(rng.lognormal(1.5, 1, units))).astype(int)
    unit = np.repeat(np.arange(units), sizes)
    inputs = len(unit)
    models = 4
    # What groups mean is the same in all worlds; who is in them is not.
    meaning = 0.6 * np.random.default_rng(5 + seed).normal(size=(groups, models))
    meaning[:, -1] = 0
    skill = np.linspace(0.9, 1.9, models) + meaning
    usual = rng.integers(0, groups, units)[unit]
    group = usual
    hard = 1.2 * rng.normal(size=inputs) + 0.7 * rng.normal(size=units)[unit]
    logit = skill[group] - hard[:, None]
    if kind != "single":
        stays = rng.random(inputs) < 0.7
        group = np.where(stays, usual, rng.integers(0, groups, inputs))
        logit = skill[group] - hard[:, None]
        logit += 0.4 * rng.normal(size=(units, models))[unit]
    chance = 1 / (1 + np.exp(-2 * logit))
    right = (rng.random((inputs, models)) < chance).astype(float)
    price = (
        np.array([0.02, 0.1, 0.3, 1.0]) * np.exp(0.3 * rng.normal(size=inputs))[:, None]
    )
    score = chance[:, -1] - chance[:, 0] + 0.25 * rng.normal(size=inputs)
    names = ("a", "b", "c", "d")
    return Log(names, group.astype(str), unit, right, price, score)


def best_fixed(log: Log, floor: float) -> float:
    """The price of the cheapest model that truly keeps the floor."""
    quality = log.quality.mean(axis=0) / log.quality[:, -1].mean()
    price = log.price.mean(axis=0) / log.price[:, -1].mean()
    return float(price[quality >= floor].min())


def simulated(worlds: int, seed: int) -> None:
    """How often a floor is missed that is stated to hold, and what is spent."""
    floors = (0.99, 0.97, 0.95, 0.9)
    print("| units | groups | score | floor | missed | spend | best model known |")
    print("|---|---|---|---|---|---|---|")
    for kind, units, groups in WORLDS:
        many = 40_000 if kind == "single" else 8_000
        truth = world(np.random.default_rng(99 + seed), kind, many, groups, seed)
        for with_score in (False, True):
            missed = np.zeros(len(floors))
            spend = np.zeros(len(floors))
            for number in range(worlds):
                log = world(
                    np.random.default_rng(1000 + seed + number),
                    kind,
                    units,
                    groups,
                    seed,
                )
                routings = ours(
                    log,
                    floors,
                    by_task=groups > 1,
                    with_score=with_score,
                    seed=number,
                )
                for at, routing in enumerate(routings):
                    quality, price = routing.on(truth)
                    missed[at] += quality < floors[at] - 1e-12
                    spend[at] += price
            for at, floor in enumerate(floors):
                rate = missed[at] / worlds
                error = 100 * np.sqrt(max(rate, 1 / worlds) * (1 - rate) / worlds)
                print(
                    f"| {units} {kind} | {groups} | {with_score} | {floor} | "
                    f"{100 * rate:.1f} ({error:.1f}) % | {spend[at] / worlds:.2f} | "
                    f"{best_fixed(truth, floor):.2f} |",
                    flush=True,
                )


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("real", "check", "simulated"))
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--worlds", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0, help="of worlds")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", deepval.InputWarning)
    if arguments.what == "simulated":
        simulated(arguments.worlds, arguments.seed)
    elif arguments.data is None:
        parser.error("real and check need the folder of the data")
    else:
        logs = {"real": real_logs, "check": check_logs}[arguments.what]
        real(logs(arguments.data), arguments.splits)


if __name__ == "__main__":
    main()
