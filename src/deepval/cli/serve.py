"""`deepval serve`: the report of a folder in a browser, judged again with other budgets, units and weights on a click.

The server listens on this machine alone, answers one address, and reads no other files than `deepval evaluate` does in
the folder. Requests that name another host or come from another site are refused.
"""

import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qs

import typer

from deepval.cli.commands import app, option
from deepval.cli.report_page import CURVE_POINTS, RESULT, ResultInFolder, page_text, read_result
from deepval.cli.terminal import say
from deepval.errors import InputError, one_line, reason
from deepval.files import reading
from deepval.files.canonical import MANIFEST, SCORES

HERE = ("127.0.0.1", "localhost")
LONGEST_FORM = 100_000
FIELDS = {
    "alpha": "Shares, such as 0.1 0.3",
    "budget": "Budgets: selection latency energy money",
    "units": "Units, such as test, or names",
    "weight": "Weights, such as excess=0.5",
    "draws": "Draws, or exact",
}
"""Fields of the form, which are options of `deepval evaluate`."""
LISTS = ("alpha", "budget", "weight")
"""Fields of several words."""


class ServedTable(NamedTuple):
    """A folder, and the words of `deepval evaluate` for the losses and scores in it; none for results alone."""

    folder: Path
    words: tuple[str, ...]


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
    page = Page(folder)
    try:
        server = Server(page, port)
    except OSError as error:
        raise InputError(f"--port {port} must be free: {reason(error)}. Give another one, or 0.") from error
    with server:
        say(f"http://{HERE[0]}:{server.server_port}/ shows {folder}; Ctrl-C ends it.")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("\nStopped.")


class Page:
    """The results of a folder as a page with a form."""

    def __init__(self, folder: Path) -> None:
        self.sources = _sources(folder)
        self.results: dict[str, ResultInFolder] = {}
        self.commands = ""
        for name, source in self.sources.items():
            saved = sorted(reading.find(source.folder, f"{RESULT}*.json"))
            names = [" ".join([name, *path.stem.removeprefix(RESULT).split("-")]).strip() for path in saved]
            self.results |= dict(zip(names, map(read_result, saved), strict=True))
            if not saved:
                self.judge({"cell": name})

    def judge(self, fields: Mapping[str, str]) -> None:
        """Judge the cell in the field `cell`, or all cells, with the options in the other fields."""
        names = [fields["cell"]] if fields.get("cell") else [name for name, one in self.sources.items() if one.words]
        if not names:
            raise InputError("Nothing here has losses and scores to judge: saved results can only be shown.")
        options = []
        for name in FIELDS:
            text = fields.get(name, "").strip()
            options += [f"--{name}={word}" for word in (re.split(r"[\s,]+", text) if name in LISTS else [text]) if word]
        if reading.is_file(fields.get("units", "").strip()):
            raise InputError("Units must be names or a role here; found the name of a file.")
        judged: dict[str, ResultInFolder] = {}
        for name in names:
            if name not in self.sources or not self.sources[name].words:
                raise InputError(f"The cell must be one with losses and scores in the folder; found {name!r}.")
            judged[name] = ResultInFolder(self.sources[name].folder, _judgement(self.sources[name].words, options))
        folders = {item.folder for item in judged.values()}
        self.results = {name: item for name, item in self.results.items() if item.folder not in folders} | judged
        lines = (shlex.join(["deepval", "evaluate", *self.sources[name].words, *options]) for name in names)
        self.commands = "\n".join(lines)

    def text(self, fields: Mapping[str, str], problem: str = "") -> str:
        """The page: that of `deepval report`, whose policy lets a form answer to this address only."""
        cells = "".join(
            f"<option{' selected' * (name == fields.get('cell'))}>{escape(name)}</option>"
            for name, source in self.sources.items()
            if source.words
        )
        inputs = "".join(
            f'<label>{escape(label)} <input name="{name}" value="{escape(fields.get(name, ""))}"></label>'
            for name, label in FIELDS.items()
        )
        form = (
            f'<details class="behind"{" open" * bool(fields)}><summary>Judge again</summary><form method="post" '
            f'action="/" class="sliders"><label>Cell <select name="cell"><option value="">all</option>{cells}</select>'
            f'</label>{inputs}<button>Judge again</button></form><pre class="command">{escape(self.commands)}</pre>'
            f'</details>{f"""<p class="note warn" role="alert">{escape(problem)}</p>""" if problem else ""}'
        )
        page = page_text(self.results).replace("form-action 'none'", "form-action 'self'", 1)
        return page.replace("<body>", f"<body>\n<main>{form}</main>", 1)


def _sources(folder: Path) -> dict[str, ServedTable]:
    """Cells, values files with scores and saved results in a folder or in the folders below it."""
    sources = {}
    for path in [folder, *(reading.entries(folder) if reading.is_folder(folder) else ())]:
        values = [file for name in ("values.csv", "values.parquet") if reading.is_file(file := path / name)]
        scores = sorted(reading.find(path / SCORES, "*.csv"))
        words: tuple[str, ...] = ()
        if reading.is_file(path / MANIFEST) and scores:
            words = (str(path),)
        elif values and scores and not reading.is_file(path / MANIFEST):
            costs = [f"--costs={path / 'costs.toml'}"] * reading.is_file(path / "costs.toml")
            words = (str(values[0]), *(f"--scores={file}" for file in scores), *costs)
        if words or any(reading.find(path, f"{RESULT}*.json")):
            sources[reading.resolve(path).name] = ServedTable(path, words)
    if not sources:
        raise InputError(
            f"{folder}: must hold a cell or values.csv, with scores in {SCORES}/, or {RESULT}.json; it has none."
        )
    return sources


def _judgement(words: tuple[str, ...], options: list[str]) -> Any:
    """The result of `deepval evaluate` with these words."""
    with TemporaryDirectory(prefix="deepval-") as work, redirect_stdout(StringIO()):
        file = Path(work) / f"{RESULT}.json"
        app(["evaluate", *words, *options, f"--curve={CURVE_POINTS}", f"--out={file}"], standalone_mode=False)
        return read_result(file).result


class Server(ThreadingHTTPServer):
    """A server of one page on this machine."""

    daemon_threads = True

    def __init__(self, page: Page, port: int) -> None:
        super().__init__((HERE[0], port), Handler)
        self.page, self.lock = page, Lock()


class Handler(BaseHTTPRequestHandler):
    """Answers GET / with the page, and POST / by judging again."""

    server: Any
    timeout = 30

    def do_GET(self) -> None:
        """Send the page."""
        self._answer({})

    def do_POST(self) -> None:
        """Judge with the fields of the form and send the page; bad input is a sentence above the old results."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length[:9]) > LONGEST_FORM:
            self._send(400, f"A form must have at most {LONGEST_FORM:,} bytes, and state how many.")
            return
        fields = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"))
        self._answer({name: texts[-1] for name, texts in fields.items()})

    def _answer(self, fields: Mapping[str, str]) -> None:
        hosts = [f"{name}:{self.server.server_port}" for name in HERE]
        origin = self.headers.get("Origin")
        if self.headers.get("Host") not in hosts or origin not in (None, *(f"http://{host}" for host in hosts)):
            self._send(403, f"The page must be opened as http://{hosts[0]}/; the request names another host or site.")
        elif self.path != "/":
            self._send(404, f"There is one page, http://{hosts[0]}/, and nothing else.")
        else:
            with self.server.lock:
                problem = ""
                try:
                    if self.command == "POST":
                        self.server.page.judge(fields)
                except InputError as error:
                    problem = one_line(error)
                self._send(400 if problem else 200, self.server.page.text(fields, problem), "text/html")

    def _send(self, code: int, text: str, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(code)
        for name, value in {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing: the terminal has the address and notes."""
