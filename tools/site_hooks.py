"""Hooks of mkdocs.yml: the README and the notebook become pages of the site, and its
links fit the site.

Links out of docs/ become plain text; a link that is named after a file is named after
its page instead.
"""

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = "two-arrays-to-threshold"


def on_files(files: Files, config: Any) -> Files:
    """Add the two pages that are no Markdown file of docs/."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    cells = json.loads(
        (ROOT / "docs" / f"{NOTEBOOK}.ipynb").read_text(encoding="utf-8")
    )["cells"]
    for name, text in (
        ("readme.md", readme),
        (f"{NOTEBOOK}.md", "\n\n".join(map(cell_markdown, cells))),
    ):
        files.append(File.generated(config, name, content=text))
    return files


def cell_markdown(cell: dict[str, Any]) -> str:
    """A cell of the notebook: its text, or its code with the text and the pictures that
    it shows.
    """
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join(
        [f"```python\n{source}\n```", *map(output_markdown, cell["outputs"])]
    )


def output_markdown(output: dict[str, Any]) -> str:
    """What a cell shows, as a picture or as text."""
    data = output.get("data", {})
    if "image/png" in data:
        return (
            "![What the cell above "
            f"draws](data:image/png;base64,{''.join(data['image/png']).strip()})"
        )
    text = "".join(output.get("text") or data["text/plain"])
    return f"```text\n{text.rstrip()}\n```"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Lead to the pages of the site, by their titles; other files of the repository are
    named without a link.
    """
    markdown = re.sub(r"\]\((?:\.\./)+README\.md", "](readme.md", markdown)
    markdown = re.sub(r"\[([^\]]+)\]\(\s*\.\./(?!\w[\w-]*\.md)[^)]*\)", r"\1", markdown)
    folder = (ROOT / "docs" / page.file.src_uri).parent
    return re.sub(
        r"\[[\w-]+\.md\]\(([^)#]+)",
        lambda link: f"[{title(folder / link[1])}]({link[1]}",
        markdown,
    )


def title(page: Path) -> str:
    """The title of a page, up to a colon."""
    with page.open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip().partition(":")[0]
