"""Counts of the source tree: modules, lines, imports, commands, words, and how many functions four walks pass through.

    python tools/measure_house.py [--walks DATA]

With --walks, DATA is the shared data folder: the walks run real commands and count the functions of deepval they call.
"""

import argparse
import ast
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "deepval"
WORDS = ("found", "told", "said", "given", "made", "kept", "held", "wanted", "each", "place", "known", "shown")
SHORT = 40
"""Code lines below which a module needs a reason to stand alone."""


def modules() -> dict[str, ast.Module]:
    """The parsed modules by dotted name."""
    trees = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def line_counts() -> tuple[int, int]:
    """Code lines (not blank, no comment) and comment lines."""
    code = comments = 0
    for path in SOURCE.rglob("*.py"):
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        comments += sum(line.startswith("#") for line in lines)
        code += sum(bool(line) and not line.startswith("#") for line in lines)
    return code, comments


def imports(name: str, tree: ast.Module, names: set[str]) -> set[str]:
    """The modules of deepval that a module imports anywhere, inside functions too, but not for type checking."""
    hidden = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for part in ast.walk(node)
    }
    targets = set()
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            targets |= {item if item in names else node.module for item in full}
    return {target for target in targets if target in names and target != name}


def rings(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules that import each other in a circle."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(node: str, edges: dict[str, set[str]], into: list[str]) -> None:
        stack: list[tuple[str, Iterator[str]]] = [(node, iter(sorted(edges[node])))]
        seen.add(node)
        while stack:
            rest = stack[-1][1]
            following = next((item for item in rest if item not in seen), None)
            if following is None:
                into.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(sorted(edges[following]))))

    for node in sorted(graph):
        if node not in seen:
            visit(node, graph, order)
    reverse: dict[str, set[str]] = {node: set() for node in graph}
    for node, targets in graph.items():
        for target in targets:
            reverse[target].add(node)
    seen.clear()
    groups = []
    for node in reversed(order):
        if node not in seen:
            group: list[str] = []
            visit(node, reverse, group)
            groups.append(sorted(group))
    return [group for group in groups if len(group) > 1]


def longest_chain(graph: dict[str, set[str]]) -> int:
    """Modules on the longest chain of imports; the rings count once."""
    member = {node: group[0] for group in rings(graph) for node in group}
    lengths: dict[str, int] = {}

    def length(node: str) -> int:
        if node not in lengths:
            lengths[node] = 0
            targets = {member.get(target, target) for target in graph[node]} - {node}
            lengths[node] = 1 + max((length(target) for target in sorted(targets)), default=0)
        return lengths[node]

    sys.setrecursionlimit(10_000)
    return max(length(member.get(node, node)) for node in graph)


def word_counts(trees: dict[str, ast.Module]) -> Counter[str]:
    """Functions with a value, an argument or a name of their own that is one of WORDS."""
    counts: Counter[str] = Counter()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
                own |= {p.id for p in ast.walk(node) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)}
                counts.update(word for word in WORDS if word in own or word == node.name.strip("_"))
    return counts


def declared_options(trees: dict[str, ast.Module]) -> int:
    """Options and arguments of commands that the source declares; one that several commands share counts once."""
    calls = (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sum(ast.unparse(call.func) in ("typer.Option", "typer.Argument") for call in calls)


def commands() -> tuple[int, int]:
    """Leaf commands and the options that all of them have together."""
    import typer

    from deepval.cli import app

    def leaves(command: Any) -> Iterator[Any]:
        if hasattr(command, "list_commands"):
            context = typer.Context(command)
            for name in command.list_commands(context):
                yield from leaves(command.get_command(context, name))
        else:
            yield command

    every = list(leaves(app if hasattr(app, "list_commands") else typer.main.get_command(app)))
    options = sum(parameter.param_type_name == "option" for leaf in every for parameter in leaf.params)
    return len(every), options


def called(work: Callable[[], Any]) -> tuple[int, int]:
    """Functions and modules of deepval that are called while something runs."""
    functions: set[tuple[str, str]] = set()

    def watch(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and "/deepval/" in code.co_filename and not code.co_name.startswith("<"):
            functions.add((code.co_filename, code.co_qualname))

    sys.setprofile(watch)
    try:
        work()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    return len(functions), len({file for file, _ in functions})


def walks(data: Path) -> dict[str, tuple[int, int]]:
    """Functions and modules on the way from files to what a reader sees."""
    import contextlib
    import io
    import os
    import warnings

    import numpy as np

    import deepval
    from deepval.cli import main

    def command(*words: object) -> Callable[[], Any]:
        def run() -> None:
            sys.argv = ["deepval", *map(str, words)]
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                main()

        return run

    warnings.simplefilter("ignore")
    kitti, logs = data / "kitti_tracking", data / "scenarionet_nuscenes_mini"
    modes = [f"--mode={name}={kitti / 'detections' / name}.parquet" for name in ("CIWT", "RRC")]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rng = np.random.default_rng(0)
        losses = {"cheap": rng.gamma(1, 1, 200), "full": rng.gamma(1, 1, 200)}
        table = deepval.ValueTable.from_columns(unit=np.arange(200) // 20, losses=losses)
        deepval.write_values(table, "values.csv")
        scores = "".join(f"{row},{score}\n" for row, score in enumerate(rng.random(200)))
        Path("mine.csv").write_text(f"input,score\n{scores}")
        build = command(
            "build", "--dataset", "kitti", "--root", kitti, *modes, "--threshold", "RRC=0.25", "--scores-are",
            "CIWT=raw", "--class", "Car", "--units", "0006", "--out", "cells",
        )  # fmt: skip
        counts = {"CSV to verdict": called(command("evaluate", "values.csv", "-s", "mine.csv"))}

        def page() -> None:
            for work in (build, command("score", "cells/braking-monocular", "ego-speed", "--units", "all"),
                         command("report", "cells/braking-monocular", "--out", "page.html")):  # fmt: skip
                with contextlib.suppress(SystemExit):
                    work()

        counts["KITTI frame to page"] = called(page)
        counts["ScenarioNet state to loss"] = called(
            command(
                "build", "--dataset", "scenarionet", "--root", logs, "--mode", "profile-320", "--mode", "profile-640",
                "--geometry", "tracks", "--system", "pdm-closed-scalar", "--units", "scene-0103", "--out", "plan",
            )
        )  # fmt: skip
        counts["analyse signs"] = called(command("analyse", "signs", "cells/braking-monocular", "--draws", "50"))
    return counts


def main() -> None:
    """Print every count, one to a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walks", type=Path, help="Shared data folder; counts the functions of four walks too.")
    arguments = parser.parse_args()
    trees = modules()
    graph = {name: imports(name, tree, set(trees)) for name, tree in trees.items()}
    code, comments = line_counts()
    stems = Counter(name.rpartition(".")[2] for name in trees)
    short = sum(
        len([line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]) < SHORT
        for path in SOURCE.rglob("*.py")
        if path.stem not in ("__init__", "__main__")
    )
    circles = rings(graph)
    leaves, options = commands()
    functions = sum(isinstance(node, ast.FunctionDef) for tree in trees.values() for node in ast.walk(tree))
    print(
        f"modules: {len(trees)}; under {SHORT} lines: {short}; names used twice: {sum(n > 1 for n in stems.values())}"
    )
    print(f"code lines: {code}; comment lines: {comments}; functions: {functions}")
    print(f"longest import chain: {longest_chain(graph)}; rings: {len(circles)} {circles}")
    print(f"leaf commands: {leaves}; options in their help: {options}; declared: {declared_options(trees)}")
    counts = word_counts(trees)
    print("words: " + ", ".join(f"{word} {counts[word]}" for word in WORDS))
    if arguments.walks:
        for name, (functions, files) in walks(arguments.walks.resolve()).items():
            print(f"{name}: {functions} functions in {files} modules")


if __name__ == "__main__":
    main()
