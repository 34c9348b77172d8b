"""What every command shows, run on small files -> docs/generated/gallery.md and the
pictures of the pages it writes.

    python tools/make_gallery.py           # about a minute; the pictures need chromium

The arrays are those of docs/start.md; images, detector.onnx and logs are the small
files of the tests. Outputs are cut to the lines that answer the question; "..." stands
for the rest, and for what differs from machine to machine.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

from make_pictures import photograph

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "generated" / "gallery.md"
PICTURES = ROOT / "docs" / "pictures"
CELL = "cells/braking-monocular"
HEAD = """# Gallery: what every command shows

`tools/make_gallery.py` writes this page, and the tests run it, in order, at 80 \
columns. `values.csv`, `mine.csv` and
`old.csv` are [those of start.md](../start.md#files), and `demo` and `cells` are made \
below. `images`, `detector.onnx`
and `logs` are small files of the tests; yours go there. "..." stands for lines left \
out, and for numbers that depend on
the machine. [commands.md](../commands.md) has the list; every command has `--help`.
"""


class Entry(NamedTuple):
    """A command of the page."""

    question: str
    lines: str
    """What is typed: one or more commands, with empty lines between them."""
    keep: tuple[str, ...] = ()
    """Patterns: paragraphs of the output that begin with one of them are shown.

    Default: all.
    """
    hide: str = ""
    """Pattern of what depends on the machine."""
    more: str = ""
    picture: tuple[str, str] | None = None
    """A page that the command wrote, and what its picture shows."""


ENTRIES = {
    "evaluate": Entry(
        "Which scores are better than random, and worth it?",
        "deepval evaluate values.csv -s mine.csv old.csv --alpha 0.2 --out result.json",
        ("cheap -> full", " +second", r"selection 20%\."),
        more="own-losses.md",
    ),
    "report": Entry(
        "How do I show it to others?",
        "deepval report result.json --out page.html",
        more="own-losses.md",
    ),
    "threshold": Entry(
        "From which score on shall the expensive mode run, and how often will it?",
        "deepval threshold values.csv -s mine.csv --alpha 0.2 --out router.json",
        ("Thresholds", " +escalate", "router.json"),
        more="serve.md",
    ),
    "compare": Entry(
        "Is the new allocator better than the old one? With `--fail-if worse`: may "
        "this change be merged?",
        "deepval compare values.csv mine.csv old.csv --alpha 0.2",
        ("mine against", "budget"),
        more="gate.md",
    ),
    "watch": Entry(
        "Is the running router still as good as it was? (Both modes ran on the inputs "
        "of `new.csv`.)",
        """deepval watch watch.json --reference values.csv -s mine.csv --alpha 0.2

cut -d, -f2 mine.csv | paste -d, values.csv - > new.csv

deepval watch watch.json new.csv --end --page watch.html""",
        more="guarantees.md#watch-a-running-router",
    ),
    "shadow": Entry(
        "On which inputs shall a running system run both modes, "
        "so that it can be judged?",
        "deepval shadow values.csv -s mine.csv --share 0.03 --out plan.json",
        more="guarantees.md",
    ),
    "demo": Entry(
        "What does all this look like, without any data?",
        "deepval demo --out demo",
        ("Simulated",),
        more="start.md",
        picture=(
            "demo/report.html",
            (
                "The page that it writes: what was judged, what to run, and how "
                "certain that is"
            ),
        ),
    ),
    "detect": Entry(
        "What does my detector see at each resolution, and what does it cost?",
        "deepval detect images -w detector.onnx --size 64 "
        "--size 96 --samples 5 --out cache",
        hide=r"\d+(?= boxes)",
        more="own-detections.md",
    ),
    "build": Entry(
        "What is an escalation worth to the decision, on every frame?",
        "deepval build --geometry monocular --system braking --out cells",
        more="cells.md",
    ),
    "fit": Entry(
        "Can an allocator learn where escalation helps?",
        f"deepval fit {CELL} -a gate-ridge",
        more="allocators.md",
    ),
    "export": Entry(
        "How does it run elsewhere?",
        f"deepval export {CELL} gate-ridge --out gate.onnx",
        hide=r"(?<=at most )[^,]+|\d+(?= of them)",
        more="serve.md",
    ),
    "score": Entry(
        "How does it rank inputs that it has not seen?",
        f"deepval score {CELL} gate-ridge",
        more="allocators.md",
    ),
    "profile": Entry(
        "What does the allocator itself cost?",
        f"deepval profile {CELL} gate-ridge --out costs.toml",
        hide=r"(?<![\w.])\d[\d.,]*(?<=\d)|(?<=threads, ).*(?=;)",
        more="costs.md",
    ),
    "import": Entry(
        "What does a public log of language models hold?",
        """cat > log.csv <<'END'
sample_id,eval_name,small,small|total_cost,large,large|total_cost
a1,arc,1,0.0001,1,0.002
a2,arc,0,0.0001,1,0.002
g1,gsm8k,1,0.0001,0,0.003
g2,gsm8k,0,0.0002,1,0.003
END

deepval import log.csv --out pair.csv""",
        more="llm-routing.md",
    ),
    "analyse": Entry(
        "How often does escalation harm, and how much? (One of the paper's analyses.)",
        f"deepval analyse signs {CELL}",
        more="analyses.md",
    ),
    "reproduce": Entry(
        "What do all analyses say, beside the paper's figures?",
        f"deepval reproduce {CELL} --analysis signs --work work --out reproduction",
        more="analyses.md#everything-at-once",
        picture=(
            "reproduction/report.html",
            "The page that it writes: every analysis, with what was run",
        ),
    ),
    "drive": Entry(
        "Where does a published planner go, and whom does it touch?",
        "deepval drive --dataset scenarionet --root logs --planner idm --seconds 3",
        more="external.md",
    ),
    "cells": Entry(
        "Which official cells can I build here?",
        "deepval cells synthetic",
        more="official.md",
    ),
    "leaderboard": Entry(
        "Who is in the first rank, and whose place is not resolved?",
        f"""deepval score {CELL} ego-speed

for name in gate-ridge ego-speed; do \\
  mkdir -p entries/$name/scores; cp {CELL}/scores/$name.csv entries/$name/scores/braking-monocular.csv; \\
  printf 'name = "%s"\\nhandle = "lab"\\ninputs = ["cheap-detections", "ego"]\\n' $name > entries/$name/card.toml; done

deepval leaderboard entries --cells cells --out board""",  # noqa: E501
        more="submit.md",
        picture=(
            "board/leaderboard.html",
            "The board's page: rank intervals instead of a bare order",
        ),
    ),
    "check": Entry(
        "Will my submission be accepted?",
        "deepval check entries/gate-ridge --cells cells",
        more="submit.md",
    ),
}


def write_data(folder: Path) -> None:
    """The files that the commands read, by the helpers of the tests."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sys.path += [
        str(ROOT / name)
        for name in settings["tool"]["pytest"]["ini_options"]["pythonpath"]
    ]
    from doc_blocks import blocks_of
    from external_worlds import scenarionet
    from kitti_files import write_kitti

    write_kitti(folder)
    scenarionet(folder / "logs")
    arrays, _, files, *_ = [
        code
        for language, code in blocks_of(ROOT / "docs" / "start.md")
        if language == "python"
    ]
    with chdir(folder):
        subprocess.run(
            [sys.executable, "-c", arrays + files],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def transcript(entry: Entry) -> str:
    """The commands, each with what it prints, cut to what the page shows."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "COLUMNS": "80", "PATH": path}
    text = ""
    for command in entry.lines.split("\n\n"):
        done = subprocess.run(
            ["bash", "-c", command], env=environment, text=True, capture_output=True
        )
        if done.returncode:
            raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
        text += f"$ {command}\n{cut(done.stdout, entry, notes=bool(done.stderr))}"
    return text


def cut(output: str, entry: Entry, *, notes: bool) -> str:
    """The paragraphs to show of an output, without what depends on the machine."""
    text = "\n".join(map(str.rstrip, output.splitlines())).strip("\n")
    if not text:
        return ""
    paragraphs = re.split(
        r"\n{2,}", re.sub(entry.hide, "...", text) if entry.hide else text
    )
    parts = ["..."] if notes else []
    for paragraph in paragraphs:
        chosen = not entry.keep or any(
            re.match(pattern, paragraph) for pattern in entry.keep
        )
        if chosen or parts[-1:] != ["..."]:
            parts.append(paragraph if chosen else "...")
    return re.sub(r"\n*\n\.\.\.\n\n*", "\n...\n", "\n\n".join(parts) + "\n")


def section(command: str, entry: Entry) -> str:
    """The part of the page about a command."""
    picture = (
        f"\n![{entry.picture[1]}](../pictures/{picture_name(entry)})\n"
        if entry.picture
        else ""
    )
    return (
        f"\n## {command}\n\n{entry.question} [More](../{entry.more}).\n\n"
        f"```console\n{transcript(entry)}```\n"
        f"{picture}"
    )


def picture_name(entry: Entry) -> str:
    """The file of the picture of a page."""
    assert entry.picture
    folder = Path(entry.picture[0]).parent.name
    return "report.png" if folder == "demo" else f"{folder}.png"


def main() -> None:
    """Write the page and its pictures."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        write_data(Path(name))
        TARGET.write_text(
            HEAD + "".join(section(*item) for item in ENTRIES.items()), encoding="utf-8"
        )
        for entry in ENTRIES.values():
            # tools/make_pictures.py draws that one
            if entry.picture and picture_name(entry) != "report.png":
                photograph(
                    Path(entry.picture[0]),
                    PICTURES / picture_name(entry),
                    size=(1000, 640),
                )


if __name__ == "__main__":
    main()
