"""`deepval serve`: the page on this machine alone, judged again by a form, and nothing
else to fetch.
"""

import http.client
import json
import os
import shlex
import signal
import subprocess
import threading
from contextlib import contextmanager
from html import unescape
from urllib.parse import urlencode

import numpy as np
import pytest

from commands import MODULE, refusal, run
from deepval.cli.report_page import Server
from pages import data_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Losses of ten units, and a score that knows half of the value."""
    home = tmp_path_factory.mktemp("served") / "<b>mine"
    (home / "scores").mkdir(parents=True)
    rng = np.random.default_rng(1)
    cheap, value = rng.gamma(2, 1, 200), rng.normal(0.3, 1, 200)
    rows = [
        f"u{i // 20},i{i},{cheap[i]:.4f},{cheap[i] - value[i]:.4f}" for i in range(200)
    ]
    (home / "values.csv").write_text(
        "\n".join(["unit,input,loss_cheap,loss_full", *rows, ""]), encoding="utf-8"
    )
    scores = [f"i{i},{value[i] + rng.normal():.4f}" for i in range(200)]
    (home / "scores" / "half.csv").write_text(
        "\n".join(["input,score", *scores, ""]), encoding="utf-8"
    )
    return home


@contextmanager
def serving(folder):
    """A server of the folder, and a function that sends it one request: (status,
    text).
    """
    with Server(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def request(method="GET", path="/", form=None, **headers):
            link = http.client.HTTPConnection(
                "127.0.0.1", server.server_port, timeout=60
            )
            about = {"Host": f"127.0.0.1:{server.server_port}"} | headers
            link.request(method, path, None if form is None else urlencode(form), about)
            answer = link.getresponse()
            return answer.status, answer.read().decode()

        try:
            yield request, server
        finally:
            server.shutdown()
            thread.join()


def rows_of(page):
    """The judged budgets and the number of units in the page's only result."""
    (cell,) = data_of(page)["cells"]
    rows = cell["result"]["rows"]
    return {row[rows["names"].index("alpha")] for row in rows["rows"]}, cell["result"][
        "setting"
    ]["units"]


def test_the_page_is_judged_again_by_its_form(folder):
    with serving(folder) as (request, server):
        status, page = request()
        assert status == 200
        alphas, units = rows_of(page)
        assert (alphas, units) == ({0.1, 0.2, 0.3, 0.5}, 10)
        assert "form-action 'self'" in page
        assert "<option>&lt;b&gt;mine</option>" in page
        here = f"http://localhost:{server.server_port}"
        form = {"cell": "", "alpha": "0.15, 0.4", "units": "u0,u1,u2", "draws": "exact"}
        status, page = request(
            "POST", form=form, Host=f"localhost:{server.server_port}", Origin=here
        )
        assert status == 200
        alphas, units = rows_of(page)
        assert (alphas, units) == ({0.15, 0.4}, 3)
        command = unescape(
            page.partition('<pre class="command">')[2].partition("</pre>")[0]
        )
        again = json.loads(run(*shlex.split(command)[1:], "--json").out)
        rows = data_of(page)["cells"][0]["result"]["rows"]
        of_page = [dict(zip(rows["names"], row, strict=True)) for row in rows["rows"]]
        sentences = [row.pop("guarantees") for row in of_page]
        # a fourth unit
        assert any("with probability at most 1/4." in text for text in sentences)
        assert again["rows"] == of_page
        assert rows_of(request()[1])[0] == {0.15, 0.4}


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"alpha": "7"}, "alpha must be"),
        ({"alpha": "<b>"}, "--alpha"),
        ({"alpha": "--out=/tmp/x"}, "--alpha"),
        ({"budget": "latency"}, "latency"),
        ({"budget": "luck"}, "--budget must be one of"),
        ({"units": "u99"}, "Named units must"),
        ({"units": "/etc/passwd"}, "Units must be"),
        ({"weight": "excess"}, "--weight"),
        ({"draws": "-1"}, "--draws"),
        ({"cell": "../other"}, "'../other'"),
        ({'{"alpha": 0.3}': ""}, "A form must"),
    ],
)
def test_bad_input_is_a_sentence_above_the_old_results(folder, form, sentence):
    with serving(folder) as (request, _):
        before = rows_of(request()[1])
        status, page = request("POST", form=form)
        assert status == 400
        alert = page.partition('role="alert">')[2].partition("</p>")[0]
        assert sentence in unescape(alert)
        assert "<" not in alert
        assert "\n" not in alert
        assert rows_of(page) == before


def test_other_hosts_sites_paths_and_long_forms_are_refused(folder):
    with serving(folder) as (request, server):
        for host in (
            "evil.example",
            f"evil.example:{server.server_port}",
            "127.0.0.1.evil.example",
            "",
        ):
            assert request(Host=host)[0] == 403
        assert (
            request("POST", form={"alpha": "0.9"}, Origin="http://evil.example")[0]
            == 403
        )
        assert request("POST", form={"alpha": "0.9"}, Origin="null")[0] == 403
        for path in (
            "/values.csv",
            "/../values.csv",
            "/%2e%2e/etc/passwd",
            "//etc/passwd",
            "/?x",
        ):
            status, text = request(path=path)
            assert (status, text.count("\n")) == (404, 0)
        assert request("POST", form={"alpha": "1" * 200_000})[0] == 400
        assert request("POST", **{"Content-Length": "many"})[0] == 400
        assert server.server_address[0] == "127.0.0.1"
        assert rows_of(request()[1])[0] == {0.1, 0.2, 0.3, 0.5}


def test_a_saved_result_is_shown_and_not_judged_again(folder, tmp_path):
    (tmp_path / "saved").mkdir()
    scores = folder / "scores" / "half.csv"
    words = (
        "--alpha",
        "0.25",
        "--draws",
        "20",
        "--out",
        tmp_path / "saved" / "result.json",
    )
    assert run("evaluate", folder / "values.csv", "-s", scores, *words).code == 0
    with serving(tmp_path) as (request, _):
        assert rows_of(request()[1])[0] == {0.25}
        assert request("POST", form={"cell": "saved"})[0] == 400
        assert "found saved results alone" in request("POST", form={})[1]


def test_a_folder_without_losses_and_a_taken_port_are_refused(folder, tmp_path):
    assert "must hold a cell or values.csv" in refusal("serve", tmp_path)
    assert "none: must be a folder that can be read" in refusal(
        "serve", tmp_path / "none"
    )
    with serving(folder) as (_, server):
        assert f"--port {server.server_port} must be free" in refusal(
            "serve", folder, "--port", server.server_port
        )


def test_it_prints_its_address_and_ends_at_once_when_stopped(folder):
    words = [*MODULE, "serve", str(folder), "--port", "0"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        address = process.stdout.readline().split()[0]
        link = http.client.HTTPConnection(
            address.removeprefix("http://").strip("/"), timeout=60
        )
        link.request("GET", "/")
        assert link.getresponse().status == 200
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip(), err) == (0, "Stopped.", "")
