"""Counts of the source tree may fall, never rise: `python tools/measure_house.py` prints them."""

import ast
from importlib.resources import files

import measure_house as house

LIMITS = {
    "modules": 281,
    "longest import chain": 21,
    "import rings": 0,
    "names of several modules": 0,
    "short modules without a reason": 0,
    "long modules": 0,
    "participles as module names": 0,
    "found": 4,
    "told": 0,
    "said": 0,
    "given": 1,
    "made": 2,
    "kept": 1,
    "held": 2,
    "wanted": 4,
    "each": 0,
    "place": 11,
    "known": 4,
    "shown": 1,
}
"""Lower a limit when its count falls; never raise one."""


def counted() -> dict[str, list[str]]:
    """The modules or functions of every count."""
    trees = house.modules()
    graph = {name: house.imports(name, tree, set(trees)) for name, tree in trees.items()}
    return {
        "modules": list(trees),
        "longest import chain": house.longest_chain(graph),
        "import rings": [" <-> ".join(ring) for ring in house.rings(graph)],
        "names of several modules": [", ".join(names) for names in house.repeated_stems(trees).values()],
        "short modules without a reason": house.short_modules(trees),
        "long modules": house.long_modules(trees),
        "participles as module names": house.participles(trees),
        **house.word_uses(trees),
    }


def test_no_count_rises():
    lists = counted()
    assert set(lists) == set(LIMITS)
    grown = {name: items for name, items in lists.items() if len(items) > LIMITS[name]}
    report = [
        f"{name}: {len(items)}, at most {LIMITS[name]}:\n  " + "\n  ".join(items) for name, items in grown.items()
    ]
    assert not grown, "\n".join(report)


def test_the_scripts_of_the_page_stay_small():
    scripts = [file for file in files("deepval.report.html").iterdir() if file.name.endswith(".js")]
    assert sum(len(file.read_bytes()) for file in scripts) <= 110_000


def test_imports_count_inside_functions_but_not_for_type_checking():
    tree = ast.parse("from a import b\ndef work():\n    import c\nif TYPE_CHECKING:\n    import d\n")
    assert house.imports("m", tree, {"a", "a.b", "c", "d", "m"}) == {"a.b", "c"}


def test_a_ring_through_a_package_is_seen():
    graph = {"p": {"p.a"}, "p.a": {"p.b"}, "p.b": {"p.a"}, "q": set()}
    assert house.rings(graph) == [["p.a", "p.b"]]
    assert len(house.longest_chain({"a": {"b"}, "b": {"c"}, "c": set(), "d": {"c"}})) == 3


def test_a_name_that_two_packages_use_is_reported():
    assert house.repeated_stems(["deepval.a.lift", "deepval.b.tie"]) == {}
    assert set(house.repeated_stems(["deepval.a.lift", "deepval.paper.analyses.lift"])) == {"lift"}
