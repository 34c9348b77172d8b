"""Counts of the source tree: modules, lines, imports, commands, words, and how many functions four walks pass through.

    python tools/measure_house.py [--walks DATA]

With --walks, DATA is the shared data folder: the walks run real commands and count the functions of deepval they call.
"""

import argparse
import ast
import importlib
import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "deepval"
WORDS = ("found", "told", "said", "given", "made", "kept", "held", "wanted", "each", "place", "known", "shown")
PARTICIPLES = (
    *("seeing", "telling", "saying", "showing", "resting", "sighting", "sifting", "making", "doctoring", "keeping"),
    *("gathering", "judged", "shown", "found", "told", "kept", "kept_parts", "held", "known"),
)
"""Names that describe how a thing came about; the name of a module must describe what it is."""
SHORT, LONG = 40, 500
"""Code lines below which a module needs a reason to be separate, and lines above which it is too long."""
EXAMPLES = {
    "system": "systems.lateral",
    "allocator": "allocators.pixel",
    "data set": "datasets.logs.waymo",
    "analysis": "paper.analyses.signs",
}
"""A component of each kind; the files that know it are the files that a new one must touch."""
REASON = re.compile(r"\b(because|so that|apart|alone|of its own)\b")
"""Words of a head docstring that gives such a reason."""


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


def longest_chain(graph: dict[str, set[str]]) -> list[str]:
    """The modules on the longest chain of imports; a ring counts once."""
    member = {node: group[0] for group in rings(graph) for node in group}
    chains: dict[str, list[str]] = {}

    def chain(node: str) -> list[str]:
        if node not in chains:
            chains[node] = []
            targets = {member.get(target, target) for target in graph[node]} - {node}
            chains[node] = [node, *max((chain(target) for target in sorted(targets)), key=len, default=[])]
        return chains[node]

    sys.setrecursionlimit(10_000)
    return max((chain(member.get(node, node)) for node in graph), key=len)


def word_uses(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Functions whose name, argument or local value is one of WORDS, by word."""
    uses: dict[str, list[str]] = {word: [] for word in WORDS}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
                own |= {p.id for p in ast.walk(node) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)}
                for word in WORDS:
                    if word in own or word == node.name.strip("_"):
                        uses[word].append(f"{name}.{node.name}")
    return uses


def repeated_stems(names: Iterable[str]) -> dict[str, list[str]]:
    """Module names that several packages use, each with its modules."""
    modules: dict[str, list[str]] = {}
    for name in names:
        modules.setdefault(name.rpartition(".")[2], []).append(name)
    return {stem: names for stem, names in modules.items() if len(names) > 1}


def short_modules(trees: dict[str, ast.Module]) -> list[str]:
    """Modules of fewer than SHORT lines whose head gives no reason to stand alone."""
    return [name for name, lines in _lines(trees).items() if lines < SHORT and not _gives_reason(trees[name])]


def long_modules(trees: dict[str, ast.Module]) -> list[str]:
    """Modules of more than LONG lines."""
    return [name for name in trees if _path(name).read_text(encoding="utf-8").count("\n") > LONG]


def participles(names: Iterable[str]) -> list[str]:
    """Modules and packages whose name is one of PARTICIPLES."""
    return [name for name in names if name.rpartition(".")[2] in PARTICIPLES]


def _lines(trees: dict[str, ast.Module]) -> dict[str, int]:
    """Lines that are not blank, by module; packages' own files are left out."""
    paths = {name: _path(name) for name in trees}
    return {
        name: sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())
        for name, path in paths.items()
        if path.stem not in ("__init__", "__main__")
    }


def _path(name: str) -> Path:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _gives_reason(tree: ast.Module) -> bool:
    return REASON.search(ast.get_docstring(tree) or "") is not None


def files_to_touch(name: str, trees: dict[str, ast.Module], graph: dict[str, set[str]]) -> list[str]:
    """The module of a component and the modules of its package that import it or state its name.

    Findings of the paper name what they are about; a new component has none.
    """
    stem, package = name.rpartition(".")[2], ".".join(name.split(".")[:2])
    named = {
        module
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == stem.replace("_", "-")
    }
    named = {module for module in named if module.startswith(package) and ".findings" not in module}
    return sorted({name, *named} | {module for module in trees if name in graph[module]})


def declared_options(trees: dict[str, ast.Module]) -> int:
    """Options and arguments of commands that the source declares; one that several commands share counts once."""
    calls = (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sum(ast.unparse(call.func) in ("option", "typer.Option", "typer.Argument") for call in calls)


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
        own = "/deepval/" in code.co_filename and not code.co_name.startswith("<")
        if event == "call" and own and code.co_flags & inspect.CO_OPTIMIZED:  # a class body is not a function
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
    """Numbers of functions and modules that are called from input files to the printed result."""
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
    for name in (name for name in modules() if not name.endswith("__main__")):  # imports do not count
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
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
    circles = rings(graph)
    leaves, options = commands()
    functions = sum(isinstance(node, ast.FunctionDef) for tree in trees.values() for node in ast.walk(tree))
    short, stems = len(short_modules(trees)), len(repeated_stems(trees))
    print(f"modules: {len(trees)}; under {SHORT} lines without a reason: {short}; names used twice: {stems}")
    print(f"modules over {LONG} lines: {long_modules(trees)}; participles as names: {participles(trees)}")
    print(f"code lines: {code}; comment lines: {comments}; functions: {functions}")
    print(f"longest import chain: {len(longest_chain(graph))}; rings: {len(circles)} {circles}")
    print(f"leaf commands: {leaves}; options in their help: {options}; declared: {declared_options(trees)}")
    touched = {kind: len(files_to_touch(f"deepval.{name}", trees, graph)) for kind, name in EXAMPLES.items()}
    print("files of a new component: " + ", ".join(f"{kind} {number}" for kind, number in touched.items()))
    print("words: " + ", ".join(f"{word} {len(uses)}" for word, uses in word_uses(trees).items()))
    if arguments.walks:
        for name, (functions, files) in walks(arguments.walks.resolve()).items():
            print(f"{name}: {functions} functions in {files} modules")


if __name__ == "__main__":
    main()
