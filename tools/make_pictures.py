"""The demo's report.html -> two pictures of the pages: the head of the report, and a
decisive frame.

    make demo && python tools/make_pictures.py demo/report.html docs/pictures

Needs chromium. The first picture shows the page as it is; for the second, all sections
but the frame are hidden.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
HIDDEN = """<style>
  .masthead, .bar, footer, main > section:not(#frames), #frames > h2, #frames > .lead {display: none !important}
</style>"""  # noqa: E501


def photograph(page: Path, picture: Path, *, size: tuple[int, int]) -> None:
    """Write a picture of the upper left of a page."""
    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit("chromium is needed to photograph the page; install it first.")
    with tempfile.TemporaryDirectory() as profile:
        words = [
            f"--user-data-dir={profile}",
            f"--window-size={size[0]},{size[1]}",
            f"--screenshot={picture}",
        ]
        subprocess.run(
            [browser, *FLAGS, *words, page.resolve().as_uri()],
            check=True,
            capture_output=True,
            timeout=120,
        )


def main() -> None:
    """Make both pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    photograph(given.page, given.out / "report.png", size=(1100, 780))
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "frame.html"
        alone.write_text(
            POLICY.sub("", given.page.read_text(encoding="utf-8")) + HIDDEN,
            encoding="utf-8",
        )
        photograph(alone, given.out / "frame.png", size=(1100, 520))


if __name__ == "__main__":
    main()
