"""Leaderboards: the same bytes for the same bytes, ranks that the intervals allow,
notes, and pages that do nothing.
"""

import base64
import hashlib
import json
import os
import re
import shutil
import sys
from html.parser import HTMLParser
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from commands import run, run_process
from deepval.basics.errors import InputError
from deepval.deploy.board import integrity
from deepval.deploy.board import standings as standings_module
from deepval.deploy.board.cards import Card
from deepval.deploy.board.leaderboard import leaderboard, write_leaderboard
from deepval.deploy.board.leaderboard_pages import as_markdown
from deepval.deploy.board.resolved_pairs import _draw_ranks, _pair_by_pair, resolved
from deepval.deploy.board.standings import rank_intervals
from deepval.deploy.board.submissions import History, Reader, Submission
from deepval.deploy.board.tracks import read_cells
from deepval.judge.draws import Draws
from deepval.judge.pairs import compare
from deepval.judge.tables.scores import Scores
from only_where import names_are_bytes
from project import ROOT
from protocol_worlds import (
    COSTS,
    PAID,
    noisy,
    speed,
    write_card,
    write_cells,
    write_scores,
    write_submission,
)
from whole_sets import standings
from worlds import quietly

DRAWS = 100


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Cells, and submissions from hopeless to strong, one refused and one with text
    that tries to run.
    """
    folder = tmp_path_factory.mktemp("world")
    latency_only = [
        line
        for line in COSTS.read_text(encoding="utf-8").splitlines()
        if not line.startswith("mj")
    ]
    (folder / "costs.toml").write_text("\n".join(latency_only), encoding="utf-8")
    write_cells(folder / "cells", scenes=16, costs=folder / "costs.toml")
    cells = read_cells(folder / "cells")
    entries = folder / "submissions"
    write_submission(
        entries / "speed",
        cells,
        speed,
        name="Speed",
        notes="<script>alert(1)</script> =cmd() [x](y)",
    )
    write_submission(entries / "noise", cells, noisy(1), name="Noise")
    write_submission(entries / "strong", cells, noisy(2, signal=3), name="Strong")
    write_submission(entries / "bad", cells, noisy(3, signal=-3), name="Bad")
    dear = {"jetson-agx-xavier": {**PAID["jetson-agx-xavier"], "ms": 10.0}}
    write_submission(
        entries / "dear", cells, noisy(2, signal=3), name="Dear", costs=dear
    )
    write_submission(entries / "formula", cells, noisy(4), name="=cmd()")
    return folder


@pytest.fixture(scope="module")
def cells(world):
    return read_cells(world / "cells")


@pytest.fixture(scope="module")
def board(world):
    return leaderboard(world / "submissions", world / "cells", draws=DRAWS)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """One cell without costs."""
    folder = tmp_path_factory.mktemp("tiny")
    write_cells(folder, scenes=8, frames=12, costs=None, systems=("braking",))
    return folder


def rows(track, kind="selection", alpha=0.2):
    return {
        row["allocator"]: row
        for row in track
        if (row["kind"], row["alpha"]) == (kind, alpha)
    }


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_bytes_whatever_the_folder_is_called_and_its_order(
    world, board, tmp_path
):
    write_leaderboard(board, tmp_path / "one")
    for name in sorted(
        (path.name for path in (world / "submissions").iterdir()), reverse=True
    ):
        shutil.copytree(world / "submissions" / name, tmp_path / "elsewhere" / name)
    again = leaderboard(tmp_path / "elsewhere", world / "cells", draws=DRAWS)
    write_leaderboard(again, tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert set(files_of(tmp_path / "one")) == {
        "leaderboard.json",
        "leaderboard.md",
        "leaderboard.html",
        "history.json",
    }
    for content in files_of(tmp_path / "one").values():
        assert str(world).encode() not in content


def judged(cells, names, draws=DRAWS):
    """Results of two cells with the same draws, straight from evaluate()."""
    made = {
        "strong": noisy(2, signal=3),
        "noise": noisy(1),
        "bad": noisy(3, signal=-3),
        "speed": speed,
    }
    return {
        key: quietly(
            deepval.evaluate,
            cell.scored,
            {name: made[name](cell) for name in names},
            [deepval.Selection(0.2)],
            draws=draws,
            units=cell.split.test,
        )
        for key, cell in cells.items()
    }


def test_ranks_of_a_cell_follow_from_compare(cells):
    names = ("strong", "noise", "bad", "speed")
    for key, result in judged(cells, names).items():
        verdicts = {
            (a, b): compare(result, a, b)[0].verdict for a, b in permutations(names, 2)
        }
        for row in standings({key: result}):
            if row.allocator in names:
                others = [name for name in names if name != row.allocator]
                assert row.rank == 1 + sum(
                    verdicts[other, row.allocator] == "better" for other in others
                )
                assert row.rank_hi == 4 - sum(
                    verdicts[row.allocator, other] == "better" for other in others
                )


def drawn(number):
    return Draws(np.ones((number, 1)), None, None)


def test_rank_intervals_by_hand():
    """A is above C and D in every draw, B above D; A and B, B and C, C and D swap
    places.
    """
    samples = {
        "A": np.array([4.0, 3.0, 4.0, 3.0]),
        "B": np.array([3.0, 4.0, 2.0, 3.0]),
        "C": np.array([2.0, 2.0, 3.0, 1.0]),
        "D": np.array([1.0, 1.0, 1.0, 2.0]),
    }
    assert rank_intervals(samples, drawn(4)) == {
        "A": (1, 4 - 2),
        "B": (1, 4 - 1),
        "C": (1 + 1, 4),
        "D": (1 + 2, 4),
    }


def test_without_draws_or_with_one_unit_nobody_is_told_apart():
    samples = {"A": np.ones(3), "B": np.zeros(3)}
    assert rank_intervals(samples, drawn(3), resampled=False) == {
        "A": (1, 2),
        "B": (1, 2),
    }
    assert rank_intervals({"A": np.zeros(0), "B": np.zeros(0)}, drawn(0)) == {
        "A": (1, 2),
        "B": (1, 2),
    }
    assert rank_intervals({"A": np.ones(3), "B": np.zeros(3)}, drawn(3)) == {
        "A": (1, 1),
        "B": (2, 2),
    }


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.integers(-3, 3), min_size=5, max_size=5), min_size=1, max_size=5
    ),
    st.randoms(),
)
def test_rank_intervals_hold_the_order_of_the_means_and_no_name_matters(series, random):
    samples = {str(i): np.array(values, dtype=float) for i, values in enumerate(series)}
    found = rank_intervals(samples, drawn(5))
    for low, high in found.values():
        assert 1 <= low <= high <= len(samples)
    names = list(samples)
    random.shuffle(names)
    assert rank_intervals({name: samples[name] for name in names}, drawn(5)) == found


@pytest.mark.parametrize("draws", [30, 41, 400])
def test_many_pairs_are_resolved_as_pairs_are(draws):
    """Counting draws tells what sorting every pair's differences tells; ties, equals
    and near misses among them.
    """
    rng = np.random.default_rng(draws)
    samples = rng.normal(size=(60, draws)) + rng.choice(
        [0.0, 0.5, 1.0, 2.0, 4.0], size=(60, 1)
    )
    samples[1], samples[2], samples[3] = (
        samples[0],
        samples[0] + 1e-13,
        np.round(samples[4]),
    )
    samples[5] = samples[6] + np.where(np.arange(draws) < draws // 40, -0.1, 0.1)
    samples[7] = samples[6] + np.where(np.arange(draws) <= draws // 40, -0.1, 0.1)
    found, slow = resolved(samples, drawn(draws)), _pair_by_pair(samples, drawn(draws))
    assert [part.tolist() for part in found] == [part.tolist() for part in slow]
    assert _draw_ranks(samples) is not None
    assert found[0].sum() == found[1].sum() > 0


def test_kept_judgements_change_no_byte_and_are_not_made_again(
    world, tmp_path, monkeypatch
):
    entries = tmp_path / "submissions"
    shutil.copytree(world / "submissions", entries)
    cache = tmp_path / "cache"

    def made(name, kept):
        write_leaderboard(
            leaderboard(entries, world / "cells", draws=DRAWS, cache=kept),
            tmp_path / name,
        )
        return {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}

    plain, first = made("plain", None), made("first", cache)
    read, asked, ranked = [], [], []

    def watched(where, name, told, told_to):
        before = getattr(where, name)
        monkeypatch.setattr(
            where, name, lambda *a, **k: (told_to.append(told(*a)), before(*a, **k))[1]
        )

    watched(Reader, "answer", lambda _, folder, *rest: Path(folder).name, read)
    watched(standings_module, "_numbers", lambda policy, *rest: policy.name, asked)
    watched(standings_module, "standings_of_bases", list, ranked)
    # Nothing changes: nobody is judged or ranked, and only who was refused is read, to
    # be told why.
    assert made("again", cache) == first == plain
    assert (read, asked, ranked) == (["formula"], [], [])
    # One submission changes: it alone is read and judged, on the cell that changed.
    path = next((entries / "noise" / "scores").iterdir())
    head, *rows = path.read_text(encoding="utf-8").splitlines()
    path.write_text(
        "\n".join([head, *(f"{row}1" for row in rows)]) + "\n", encoding="utf-8"
    )
    changed = made("changed", cache)
    assert sorted(read) == ["formula", "formula", "noise"]
    assert set(asked) == {"lab/Noise"}
    assert len(asked) == 2  # by selection and by latency
    assert changed == made("changed-plain", None)
    # What is gone is not kept.
    sizes = {path.name: path.stat().st_size for path in cache.iterdir()}
    shutil.rmtree(entries / "strong")
    less = made("less", cache)
    assert less == made("less-plain", None)
    assert all(path.stat().st_size < sizes[path.name] for path in cache.iterdir())
    # A damaged file is as good as none.
    for kept in cache.iterdir():
        data = bytearray(kept.read_bytes())
        data[len(data) // 2] ^= 1
        kept.write_bytes(bytes(data))
    assert made("damaged", cache) == less
    assert not [path for path in cache.iterdir() if path.name.startswith(".")]


@names_are_bytes
def test_folders_whose_names_are_no_text_are_shown_quoted(tiny, tmp_path):
    long = "x" * 200
    for name in (
        b"\xff\xfe",
        b"<script>",
        b"a\nb",
        f"{long}1<".encode(),
        f"{long}2<".encode(),
    ):
        (tmp_path / "entries" / os.fsdecode(name)).mkdir(parents=True)
    (tmp_path / "entries" / "ring").symlink_to("ring")
    content = leaderboard(tmp_path / "entries", tiny, draws=0)
    write_leaderboard(content, tmp_path / "out")
    names = [item["folder"] for item in content["refused"]]
    assert len(names) == 6
    assert {"'<script>'", "'a\\nb'", "'\\udcff\\udcfe'", "ring"} <= set(names)
    page = (tmp_path / "out" / "leaderboard.html").read_text(encoding="utf-8")
    assert (page.count("<script"), page.count("&lt;script")) == (1, 1)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [
            value
            for name, value in attrs
            if name in ("src", "href") or name.startswith("on")
        ]


def test_pages_load_nothing_and_run_only_their_own_script(board, tmp_path):
    write_leaderboard(board, tmp_path)
    page = (tmp_path / "leaderboard.html").read_text(encoding="utf-8")
    found = Tags()
    found.feed(page)
    assert not found.tags & {"img", "iframe", "object", "form"}
    assert all(link == "data:," or link.startswith("#") for link in found.links)
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    assert "unsafe" not in page
    assert "prefers-color-scheme: dark" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; =cmd()" in page
    text = (tmp_path / "leaderboard.md").read_text(encoding="utf-8")
    assert r"\<script\>alert(1)\</script\> =cmd() \[x\](y)" in text
    assert "<script" not in text.replace(r"\<", "")


def test_the_page_opens_with_who_leads_and_a_chart_of_those_that_have_a_rank(
    board, tmp_path
):
    write_leaderboard(board, tmp_path)
    page = (tmp_path / "leaderboard.html").read_text(encoding="utf-8")
    (track,) = board["tracks"]
    ranked = {
        name: row
        for name, row in rows(track["overall"]).items()
        if row["rank"] is not None
    }
    first = [
        name
        for name, row in ranked.items()
        if row["rank"] == 1 and row["verdict"] == "better"
    ]
    heading = re.search("<h1>(.*?)</h1>", page)[1]
    assert first == [name for name in ranked if name in heading]
    chart = re.search("<figure>(.*?)</figure>", page, flags=re.DOTALL)[1]
    for name, row in ranked.items():
        ranks = (
            row["rank"]
            if row["rank"] == row["rank_hi"]
            else f"{row['rank']}-{row['rank_hi']}"
        )
        assert f"{name}, rank {ranks}" in chart
    worse = {**ranked[first[0]], "never_verdict": "worse"}
    beaten = {
        **track,
        "overall": [worse],
        "by_cell": {},
        "flagged": {"overall": [], "by_cell": {}},
    }
    assert f"{track['title']}: no submission is shown to be worth it." in as_markdown(
        {**board, "tracks": [beaten]}
    )


ACTIVE_TEXT = (
    "http://evil.example/a|b https://evil.example www.evil.example "
    "mailto:a@evil.example xmpp:a@evil.example a@b.example @octocat owner/repo#12 #12 "
    "GH-12 octocat@deadbeef0123 deadbeef0123 :tada: $x^2$ $a b$ $`y`$ <b>x</b> &copy; "
    "~~x~~ ![x](http://evil.example) **x** `y`"
)


def test_nothing_of_a_submission_is_active_in_markdown(tiny, tmp_path):
    """Outside code spans no address, @name, issue, commit, emoji, formula or markup is
    left, and no text is lost.
    """
    paid = {"board": {"ms": 1.0, "served": "single", "measured": ACTIVE_TEXT}}
    write_submission(
        tmp_path / "entries" / "mine",
        read_cells(tiny),
        speed,
        notes=ACTIVE_TEXT,
        costs=paid,
    )
    (tmp_path / "entries" / "1. @octocat $x$").mkdir()
    write_leaderboard(
        leaderboard(tmp_path / "entries", tiny, draws=0), tmp_path / "out"
    )
    text = (tmp_path / "out" / "leaderboard.md").read_text(encoding="utf-8")
    code = r"(?<!\\)(`+)(?!`).+?(?<!`)\1(?!`)"
    outside = re.sub(code, "", text)
    for word in (
        "http",
        "www.",
        "mailto",
        "@",
        "octocat",
        "#12",
        "GH-12",
        "deadbeef",
        ":tada:",
        "$",
        "evil",
    ):
        assert word in text
        assert word not in outside
    assert not re.search(r"(?<!\\)[<>\[\]~&_]", outside)
    assert not re.search(r"\b[0-9a-f]{7,40}\b", outside)
    for word in (
        "`@octocat`",
        "`owner/repo#12`",
        "`` $`y`$ ``",
        "`http://evil.example/a`\\|b",
        r"\~\~x\~\~",
        r"\&copy;",
    ):
        assert word in text


def test_two_folders_of_one_name_are_both_refused(tiny, tmp_path):
    cells = read_cells(tiny)
    write_submission(tmp_path / "a", cells, speed, name="Speed")
    write_submission(tmp_path / "b", cells, speed, name="speed")
    found = leaderboard(tmp_path, tiny, draws=DRAWS)
    assert [item["folder"] for item in found["refused"]] == ["a", "b"]
    assert (
        "lab/Speed must be one submission; 2 folders claim it"
        in found["refused"][0]["reasons"][0]
    )


def proposal(board, folder):
    """A copy of a board's folder, as a pull request starts from."""
    return Path(shutil.copytree(board, folder))


@pytest.fixture
def established(tiny, tmp_path):
    """A board on which first/Mine stands, with its history."""
    folder = tmp_path / "official"
    write_submission(folder / "mine", read_cells(tiny), noisy(1), handle="first")
    write_leaderboard(leaderboard(folder, tiny, draws=0), tmp_path / "before")
    shutil.copy(tmp_path / "before" / "history.json", folder)
    return folder


def told(content):
    """Per submission on a board, whether it is flagged; and the folders that are
    refused.
    """
    flags = {
        entry["allocator"]: bool(entry["flags"]) for entry in content["submissions"]
    }
    return flags, [item["folder"] for item in content["refused"]]


@pytest.mark.parametrize(
    ("handle", "name"),
    [
        ("first", "Mi ne."),
        ("fir-st", "Mine"),
        ("fi-rst", "X"),
    ],
)
def test_the_established_name_stands_and_its_look_alike_is_refused_alone(
    tiny, established, tmp_path, handle, name
):
    proposed = proposal(established, tmp_path / "proposed")
    write_submission(
        proposed / "a", read_cells(tiny), noisy(2), handle=handle, name=name
    )
    for base in (None, established):
        content = leaderboard(proposed, tiny, base=base, draws=0)
        assert told(content) == ({"first/Mine": False}, ["a"])
    with_own_history = json.loads((proposed / "history.json").read_text())
    with_own_history["folders"] = {"first/Mine": "a"}
    (proposed / "history.json").write_text(json.dumps(with_own_history))
    assert told(leaderboard(proposed, tiny, base=established, draws=0)) == (
        {"first/Mine": False},
        ["a"],
    )


def test_precedence_comes_from_the_base_and_not_from_the_proposal(
    tiny, established, tmp_path
):
    proposed = proposal(established, tmp_path / "proposed")
    write_submission(proposed / "thief", read_cells(tiny), noisy(1), handle="thief")
    later = {"first/Mine": False, "thief/Mine": True}
    assert told(leaderboard(proposed, tiny, base=established, draws=0)) == (later, [])
    history = json.loads((proposed / "history.json").read_text())
    for part in ("versions", "turns", "folders"):
        history[part] = {"thief/Mine": history[part]["first/Mine"]}
    (proposed / "history.json").write_text(json.dumps(history))
    assert told(leaderboard(proposed, tiny, draws=0)) == (
        {"first/Mine": True, "thief/Mine": False},
        [],
    )
    content = leaderboard(proposed, tiny, base=established, draws=0)
    assert told(content) == (later, [])
    assert content["history"].turns == {"first/Mine": [1], "thief/Mine": [2]}
    # A base whose history was not carried on: what lies in its folder was there first.
    (established / "history.json").unlink()
    content = leaderboard(proposed, tiny, base=established, draws=0)
    assert told(content) == (later, [])
    assert content["history"].turns == {"first/Mine": [1], "thief/Mine": [2]}
    # The first submission ever: there is no base yet, and the history that it brings
    # does not count.
    content = leaderboard(proposed, tiny, base=tmp_path / "none", draws=0)
    assert told(content) == ({"first/Mine": True, "thief/Mine": True}, [])


def test_a_proposal_removes_no_submission_of_the_board(tiny, established, tmp_path):
    cells = read_cells(tiny)
    removed, taken, broken, changed = (
        proposal(established, tmp_path / name) for name in "abcd"
    )
    shutil.rmtree(removed / "mine")
    write_submission(removed / "thief", cells, noisy(1), handle="thief")
    write_card(taken / "mine", handle="thief")
    (broken / "mine" / "card.toml").write_text("handle = 1")
    write_submission(changed / "mine", cells, noisy(2), handle="first")
    both = {"first/Mine": False, "thief/Mine": True}
    for folder, board in (
        (removed, (both, [])),
        (taken, (both, [])),
        (broken, ({"first/Mine": False}, ["mine"])),
    ):
        content = leaderboard(folder, tiny, base=established, draws=0)
        assert told(content) == board
        assert content["removed"] == ["first/Mine"]
        (entry,) = [
            entry for entry in content["submissions"] if entry["handle"] == "first"
        ]
        assert (
            "the proposal removes it; it is judged as it stands on the board"
            in entry["integrity"]
        )
    content = leaderboard(changed, tiny, base=established, draws=0)
    assert (content["removed"], content["changed"]) == ([], ["first/Mine"])
    words = [
        "leaderboard",
        removed,
        "--cells",
        tiny,
        "--out",
        tmp_path / "out",
        "--draws",
        0,
        "--base",
        established,
    ]
    done = run(*words, "--strict")
    assert done.code == 2
    assert "first/Mine is not: put it back" in done.err
    assert "removed by the proposal" in done.out


def test_what_left_the_board_or_was_replaced_is_still_its_owners(
    tiny, established, tmp_path
):
    """A maintainer removes a submission, or its author replaces it: the history
    remembers how it ranked.
    """
    cells = read_cells(tiny)
    shutil.rmtree(established / "mine")
    write_submission(
        established / "z",
        cells,
        lambda cell: np.exp(noisy(1)(cell)),
        handle="thief",
        name="Z",
    )
    (entry,) = leaderboard(established, tiny, draws=0)["submissions"]
    assert entry["flags"] == ["the ranking of first/Mine, which left the board"]
    write_submission(established / "mine", cells, noisy(3), handle="first")
    flags = {
        entry["handle"]: entry["flags"]
        for entry in leaderboard(established, tiny, draws=0)["submissions"]
    }
    assert flags == {
        "first": [],
        "thief": ["the ranking of first/Mine, in an earlier version"],
    }


INCREASING = {
    "the same scores": lambda s: s,
    "2 s + 1": lambda s: 2 * s + 1,
    "exp": np.exp,
    "ranks": lambda s: np.unique(s, return_inverse=True)[1].astype(float),
}


def entered(cell, **scores):
    """Submissions to one cell by handle."""
    return [
        Submission(
            handle,
            Card("X", handle, ("ego",), None, {}, {}, ""),
            {cell.name: Scores("x", values, np.ones(len(values), dtype=bool))},
            {f"scores/{cell.name}.csv": handle},
        )
        for handle, values in scores.items()
    ]


@pytest.mark.parametrize("change", INCREASING)
def test_every_increasing_function_of_the_scores_is_the_same_ranking(tiny, change):
    (cell,) = read_cells(tiny).values()
    own = noisy(1)(cell)
    items = entered(cell, first=own, copy=INCREASING[change](own), other=-own)
    flags, _ = integrity.copies(items, {cell.name: cell}, History())
    assert [bool(sentences) for sentences in flags] == [True, True, False]


def test_scores_that_order_two_test_inputs_otherwise_are_no_copy(tiny):
    """Near copies are left to the reader: honest fits may be as near."""
    (cell,) = read_cells(tiny).values()
    own = noisy(1)(cell)
    test = np.flatnonzero(
        np.isin(cell.scored.unit_ids[cell.scored.unit], cell.split.test)
    )
    one, two = test[np.argsort(own[test])[:2]]
    near = own.copy()
    near[[one, two]] = own[[two, one]]
    flags, _ = integrity.copies(
        entered(cell, first=own, near=near), {cell.name: cell}, History()
    )
    assert flags == [[], []]


def test_constant_scores_copy_nobody(tiny):
    (cell,) = read_cells(tiny).values()
    same = np.zeros(len(cell.scored))
    flags, rankings = integrity.copies(
        entered(cell, first=same, second=same), {cell.name: cell}, History()
    )
    assert (flags, rankings) == ([[], []], {})


def test_who_lacks_a_cell_is_ranked_there_but_not_overall(world, cells, tmp_path):
    write_submission(tmp_path / "all", cells, speed, name="All")
    write_card(tmp_path / "part", name="Part", cells=list(cells))
    write_scores(
        tmp_path / "part", cells["braking-monocular"], speed(cells["braking-monocular"])
    )
    found = leaderboard(tmp_path, world / "cells", draws=DRAWS)
    (track,) = found["tracks"]
    assert track["incomplete"] == {"lab/Part": ["receding-horizon-monocular"]}
    assert "lab/Part" not in rows(track["overall"])
    assert rows(track["by_cell"]["braking-monocular"])["lab/Part"]["rank"] == 1
    notes = {entry["allocator"]: entry["integrity"] for entry in found["submissions"]}
    assert (
        "the card declares cell receding-horizon-monocular, which has no scores"
        in notes["lab/Part"]
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"schema": "x", "versions": {}}',
        '{"schema": "deepval/history/1", "versions": {"lab/Mine": [{"\\ud800": ""}]}}',
        (
            '{"schema": "deepval/history/1", "versions": {"a/b": '
            '[{}]}, "turns": {"a/b": []}}'
        ),
    ],
)
def test_a_history_that_is_none_is_bad_input(tiny, tmp_path, content):
    (tmp_path / "history.json").write_text(content)
    with pytest.raises(InputError, match="must be a history written by"):
        leaderboard(tmp_path, tiny, draws=0)


def test_a_flagged_submission_is_not_ranked_and_stands_apart_with_the_reason(
    tiny, established, tmp_path
):
    cells, out = read_cells(tiny), tmp_path / "out"
    write_submission(established / "speed", cells, speed, name="Speed")
    alone = leaderboard(established, tiny, draws=DRAWS)
    write_submission(
        established / "thief",
        cells,
        lambda cell: np.exp(noisy(1)(cell)),
        handle="thief",
        name="Copy",
    )
    done = run(
        "leaderboard", established, "--cells", tiny, "--out", out, "--draws", DRAWS
    )
    reason = "thief/Copy: the same ranking as first/Mine"
    assert (done.code, f"  flagged, not ranked: {reason}" in done.out) == (0, True)
    found = json.loads((out / "leaderboard.json").read_text())
    (track,), (before,) = found["tracks"], alone["tracks"]
    # Whoever is flagged counts in nobody's rank: the others stand as if it were not
    # there.
    for name in ("overall", "by_cell", "comparisons"):
        assert json.loads(json.dumps(before[name])) == track[name]
    apart = rows(track["flagged"]["overall"])
    assert {name: (row["rank"], row["rank_hi"]) for name, row in apart.items()} == {
        "thief/Copy": (None, None)
    }
    first = rows(track["overall"])["first/Mine"]
    assert apart["thief/Copy"]["gain_share"] == first["gain_share"]
    for page in ("leaderboard.md", "leaderboard.html"):
        ranked, _, rest = (out / page).read_text().partition("flagged, not ranked")
        assert "thief/Copy" not in ranked
        assert reason in rest


def test_the_rank_correlation_with_the_answers_is_a_note_and_changes_no_rank(
    cells, world, tmp_path
):
    from scipy.stats import spearmanr

    def answers(cell):
        return cell.scored.decision_values

    write_submission(tmp_path / "leaked", cells, answers, name="Leaked")
    write_submission(tmp_path / "speed", cells, speed, name="Speed")
    found = leaderboard(tmp_path, world / "cells", draws=DRAWS)
    entries = {entry["name"]: entry for entry in found["submissions"]}
    assert [entry["flags"] for entry in entries.values()] == [[], []]
    assert rows(found["tracks"][0]["overall"])["lab/Leaked"]["rank"] == 1
    (leaked,), (own,) = (entries[name]["integrity"] for name in ("Leaked", "Speed"))
    cell = cells["braking-monocular"]
    value, unit = cell.scored.decision_values, cell.scored.unit_ids[cell.scored.unit]
    part = np.isin(unit, cell.split.test) & (value != 0)
    assert f": braking-monocular 1.00 on {part.sum()} (validation: " in leaked
    slow = spearmanr(speed(cell)[part], value[part]).statistic
    assert f": braking-monocular {slow:.2f} on {part.sum()} (validation: " in own


def test_of_equal_scores_under_two_handles_the_earlier_is_ranked(tiny, tmp_path):
    cells, entries = read_cells(tiny), tmp_path / "entries"

    def flagged(name="out"):
        content = leaderboard(entries, tiny, draws=20)
        write_leaderboard(content, tmp_path / name)
        return {entry["allocator"]: entry["flags"] for entry in content["submissions"]}

    write_submission(entries / "z", cells, speed, handle="first")
    assert flagged() == {"first/Mine": []}
    write_submission(entries / "a", cells, speed, handle="second")
    both = {
        "first/Mine": ["the same scores as second/Mine"],
        "second/Mine": ["the same scores as first/Mine"],
    }
    assert flagged("unknown") == both
    later = {**both, "first/Mine": []}
    for _ in range(3):
        shutil.copy(tmp_path / "out" / "history.json", entries / "history.json")
        assert flagged() == later
    write_submission(entries / "a", cells, speed, handle="first", name="Other")
    assert flagged() == {"first/Mine": [], "first/Other": []}


def test_the_command_writes_and_tells(tiny, tmp_path):
    cells, out = read_cells(tiny), tmp_path / "out"
    write_submission(tmp_path / "entries" / "mine", cells, speed)
    write_submission(tmp_path / "entries" / "formula", cells, speed, name="=cmd()")
    words = [
        "leaderboard",
        tmp_path / "entries",
        "--cells",
        tiny,
        "--out",
        out,
        "--draws",
        DRAWS,
    ]
    done = run(*words)
    assert done.code == 0
    assert done.out.startswith(
        f"1 submission judged on 1 cell, 1 refused: see {out}.\n"
        "  refused formula: card.toml"
    )
    write_leaderboard(
        leaderboard(tmp_path / "entries", tiny, draws=DRAWS), tmp_path / "same"
    )
    assert files_of(out) == files_of(tmp_path / "same")
    strict = run(*words, "--strict", "--json")
    assert strict.code == 2
    assert json.loads(strict.out)["schema"] == "deepval/leaderboard/1"
    assert (
        "every submission must be valid; refused formula, for the reasons in"
        in strict.err
    )
    assert (
        run("leaderboard", tmp_path / "none", "--cells", tiny, "--out", out).code == 2
    )
    assert "Example: deepval leaderboard" in run("leaderboard", "--help").out


def test_the_action_is_one_script_that_judges_a_hostile_folder(tiny, tmp_path):
    script, entries, out = (
        ROOT / "tools" / "score_submission.sh",
        tmp_path / "entries",
        tmp_path / "out",
    )
    write_submission(entries / "mine", read_cells(tiny), speed)
    write_submission(entries / "formula", read_cells(tiny), speed, name="=cmd()")
    (entries / "link").symlink_to("/etc")
    (entries / "sparse" / "scores").mkdir(parents=True)
    (entries / "sparse" / "card.toml").touch()
    with (entries / "sparse" / "scores" / "braking-monocular.parquet").open(
        "wb"
    ) as file:
        file.truncate(2 * 2**30)
    summary = tmp_path / "summary.md"
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
    }
    environment |= {"GITHUB_STEP_SUMMARY": str(summary)}
    done = run_process(
        entries,
        tiny,
        out,
        "--draws",
        "20",
        program=(str(script),),
        env=environment,
        cwd=tmp_path,
    )
    assert done.code == 2, done.err
    assert done.out.startswith("1 submission judged on 1 cell, 3 refused")
    assert "refused formula, link, sparse" in done.err
    assert summary.read_bytes() == (out / "leaderboard.md").read_bytes()
    assert set(files_of(out)) == {
        "leaderboard.json",
        "leaderboard.md",
        "leaderboard.html",
        "history.json",
    }
    steps = (ROOT / ".github" / "workflows" / "submission.yml").read_text(
        encoding="utf-8"
    )
    assert [line.strip() for line in steps.splitlines() if "run:" in line] == [
        (
            "- run: official/tools/score_submission.sh proposed/submissions cells "
            "leaderboard --base official/submissions"
        )
    ]
