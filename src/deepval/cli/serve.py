"""`deepval serve`: the report of a folder in a browser, judged again with other budgets, units and weights on a click.

The server listens on this machine alone, answers one address, and reads no other files than `deepval evaluate` does in
the folder. Requests that name another host or come from another site are refused.
"""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Annotated, Any
from urllib.parse import parse_qs

import typer

from deepval.cli.commands import app, option
from deepval.cli.report_page import CURVE_POINTS, RESULT, ResultInFolder, page_text, results_by_name
from deepval.cli.terminal import say
from deepval.errors import InputError, one_line, quote, reason
from deepval.files import reading
from deepval.files.canonical import MANIFEST, SCORES
from deepval.results import Result

HERE = ("127.0.0.1", "localhost")
FIELDS = {
    "alpha": "Shares, such as 0.1 0.3",
    "budget": "Budgets: selection latency energy money",
    "weight": "Weights, such as excess=0.5",
    "units": "Units, such as test, or names",
    "draws": "Draws, or exact",
}
"""Fields of the form, which are options of `deepval evaluate`."""
LISTS = ("alpha", "budget", "weight")
"""Fields of several words."""


def serve(
    folder: Annotated[
        Path, typer.Argument(help="A cell's folder; values.csv, scores/ and costs.toml; or a folder of those.")
    ],
    *,
    port: Annotated[int, option("--port", "Port of this machine; 0 takes any free one.", within=(0, 65_535))] = 8765,
) -> None:
    """Show the report in a browser, and judge again on a click.

    The page is that of `deepval report`, with a form for other budgets, units and weights. It is served to this machine
    only, until Ctrl-C. Looks at test units are noted as by `deepval evaluate`.

    Example: deepval serve demo
    """
    with Server(folder, port) as server:
        say(f"http://{HERE[0]}:{server.server_port}/ shows {folder}; Ctrl-C ends it.")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("\nStopped.")


class Server(ThreadingHTTPServer):
    """A server of one page on this machine: the results of a folder, and a form."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        self.lock, self.commands = Lock(), ""
        self.results: dict[str, Mapping[str, ResultInFolder]] = {}
        self.sources = {reading.resolve(path).name: (path, words) for path, words in _sources(folder)}
        if not self.sources:
            raise InputError(f"{folder}: must hold a cell or values.csv, with scores/, or {RESULT}.json; it has none.")
        try:
            super().__init__((HERE[0], port), Handler)
        except OSError as error:
            raise InputError(f"--port {port} must be free: {reason(error)}. Give another one, or 0.") from error
        for name, (path, words) in self.sources.items():
            saved = any(reading.find(path, f"{RESULT}*.json"))
            self.results[name] = results_by_name({name: path}) if saved else self.judged(name, words)

    def judge(self, fields: Mapping[str, str]) -> None:
        """Judge the cell in the field `cell`, or all cells, with the options in the other fields."""
        cell, unknown = fields.get("cell") or "", fields.keys() - {"cell", *FIELDS}
        if unknown:
            raise InputError(f"A form must have the fields cell, {', '.join(FIELDS)}; found {quote(min(unknown))}.")
        words = {name: words for name, (_, words) in self.sources.items() if words and cell in ("", name)}
        if not words:
            here = quote(cell) if cell else "saved results alone"
            raise InputError(f"What is judged again must have losses and scores in the folder; found {here}.")
        if reading.is_file(fields.get("units", "").strip()):
            raise InputError("Units must be names or a role here; found the name of a file.")
        texts = {name: fields.get(name, "").strip() for name in FIELDS}
        parts = {name: re.split(r"[\s,]+", text) if name in LISTS else [text] for name, text in texts.items()}
        options = [f"--{name}={word}" for name, several in parts.items() for word in several if word]
        self.results |= {name: self.judged(name, [*own, *options]) for name, own in words.items()}
        self.commands = "\n".join(shlex.join(["deepval", "evaluate", *own, *options]) for own in words.values())

    def judged(self, name: str, words: list[str]) -> dict[str, ResultInFolder]:
        """The result of `deepval evaluate` with these words, as that of a cell."""
        with TemporaryDirectory(prefix="deepval-") as work, redirect_stdout(StringIO()):
            file = Path(work) / f"{RESULT}.json"
            app(["evaluate", *words, f"--curve={CURVE_POINTS}", f"--out={file}"], standalone_mode=False)
            return {name: ResultInFolder(self.sources[name][0], Result.load(file))}

    def text(self, fields: Mapping[str, str], problem: str) -> str:
        """The page: that of `deepval report`, whose policy lets a form answer to this address only."""
        cells = {name: " selected" * (fields.get("cell") == name) for name, source in self.sources.items() if source[1]}
        items = "".join(f"<option{mark}>{escape(name)}</option>" for name, mark in cells.items())
        inputs = "".join(
            f'<label>{escape(label)} <input name="{name}" value="{escape(fields.get(name, ""))}"></label>'
            for name, label in FIELDS.items()
        )
        alert = f'<p class="note warn" role="alert">{escape(problem)}</p>' * bool(problem)
        commands = f'<pre class="command">{escape(self.commands)}</pre>' * bool(self.commands)
        form = (
            f'<main><details class="behind"{" open" * bool(fields)}><summary>Judge again</summary><form method="post" '
            f'action="/" class="sliders"><label>Cell <select name="cell"><option value="">all</option>{items}</select>'
            f"</label>{inputs}<button>Judge again</button></form>{commands}</details>{alert}</main>"
        )
        page = page_text({title: item for part in self.results.values() for title, item in part.items()})
        return page.replace("form-action 'none'", "form-action 'self'", 1).replace("<body>", f"<body>\n{form}", 1)


def _sources(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """The folder and those in it that have something to show, with the words of `deepval evaluate` for each."""
    for path in [folder, *reading.entries(folder)]:
        values = [file for name in ("values.csv", "values.parquet") if reading.is_file(file := path / name)]
        scores = sorted(reading.find(path / SCORES, "*.csv"))
        if scores and reading.is_file(path / MANIFEST):
            yield path, [str(path)]
        elif scores and values:
            costs = [f"--costs={path / 'costs.toml'}"] * reading.is_file(path / "costs.toml")
            yield path, [str(values[0]), *(f"--scores={file}" for file in scores), *costs]
        elif any(reading.find(path, f"{RESULT}*.json")):
            yield path, []


class Handler(BaseHTTPRequestHandler):
    """Answers GET / with the page, and POST / by judging again."""

    server: Any
    timeout = 30

    def do_GET(self) -> None:
        """Send the page, or one sentence."""
        code, text = self._answer()
        body, kind = text.encode(), "html" if text.startswith("<") else "plain"
        self.send_response(code)
        about = {"Content-Type": f"text/{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in (about | {"X-Frame-Options": "DENY", "Cache-Control": "no-store"}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def _answer(self) -> tuple[int, str]:
        """Status and text; for bad input of a form, a sentence above the old results."""
        length = self.headers.get("Content-Length", "0")
        if not re.fullmatch("[0-9]{1,5}", length):
            return 400, "A form must have at most 99,999 bytes, and state how many."
        form = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"), keep_blank_values=True)
        hosts = [f"{name}:{self.server.server_port}" for name in HERE]
        origins = (None, *(f"http://{host}" for host in hosts))
        if self.headers.get("Host") not in hosts or self.headers.get("Origin") not in origins:
            return 403, f"The page must be opened as http://{hosts[0]}/; the request names another host or site."
        if self.path != "/":
            return 404, f"There is one page, http://{hosts[0]}/, and nothing else."
        fields, problem = {name: texts[-1] for name, texts in form.items()}, ""
        with self.server.lock:
            try:
                if self.command == "POST":
                    self.server.judge(fields)
            except InputError as error:
                problem = one_line(error)
            return 400 if problem else 200, self.server.text(fields, problem)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing: the terminal has the address and notes."""
