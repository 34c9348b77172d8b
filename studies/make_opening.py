"""A public table of language models and the files of `deepval example` -> the pictures
that open the README and the home page.

    python studies/make_opening.py ../shared/data docs/pictures

RouterBench's winograde (`routerbench_zs_winograde_train.parquet`): six of its eleven
models, the price of every call, and one score, the length of the prompt, at 20 % of the
money. Nothing is fitted. The title is the answer that `deepval evaluate` prints. The
three answers are those on the examples.
"""

import argparse
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import deepval
from deepval.cli.example import EXAMPLES

TABLE = "routing/routerbench_zs_winograde_train.parquet"
MODELS = (
    "mistralai/mistral-7b-chat",
    "mistralai/mixtral-8x7b-chat",
    "zero-one-ai/Yi-34B-Chat",
    "gpt-3.5-turbo-1106",
    "claude-v2",
    "gpt-4-1106-preview",
)
SIZE_IN = (5.0, 3.1)
SMALL_IN = (3.4, 2.75)
DOTS_PER_INCH = 160
ANSWERS = {
    "run": ("requests.csv", "router"),
    "do-not-run": ("requests.csv", "length"),
    "not-settled": ("drives.csv", "speed"),
}
"""For each answer, the file of an example and the score that get it."""


def main() -> None:
    """Draw the pictures, and print their titles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("pictures", type=Path)
    arguments = parser.parse_args()

    # The table has no groups, so that each prompt is a unit, with a note.
    warnings.simplefilter("ignore", deepval.InputWarning)
    result = winograde(arguments.data / TABLE)
    save(result, arguments.pictures / "quality-cost.png", SIZE_IN)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for example in ("routing", "driving"):
            for file, text in EXAMPLES[example].files().items():
                (folder / file).write_text(text, encoding="utf-8")
        for answer, (values, score) in ANSWERS.items():
            scores = {score: folder / f"{score}.csv"}
            result = deepval.evaluate(folder / values, scores, curve_points=40)
            save(result, arguments.pictures / f"answer-{answer}.png", SMALL_IN)


def winograde(file: Path) -> deepval.Result:
    """The public table with the length of its prompts as score."""
    table = deepval.import_router_log(file, models=MODELS)
    names = tuple(model.rpartition("/")[2] for model in table.modes)
    table = replace(table, modes=names)
    length = table.attributes["prompt_length"]
    return deepval.evaluate(table, {"prompt length": length}, curve_points=40)


def save(result: deepval.Result, picture: Path, size_in: tuple[float, float]) -> None:
    """Draw the answer at 20 %."""
    figure = result.plot()
    figure.set_size_inches(size_in)
    figure.savefig(picture, dpi=DOTS_PER_INCH, metadata={"Software": None})
    print(f"{picture.name}: {result.answer(0.2).sentence}")


if __name__ == "__main__":
    main()
