"""Two drives of one scene -> a self-contained page that plays them side by side from above."""

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from deepval.files.canonical import json_packed
from deepval.report.forms import content_policy

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --paper: #fff; --road: #e9edf1; --mark: #c2410c; --car: #64748b }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf0; --paper: #12181f; --road: #222c36; --mark: #fb923c; --car: #8fa1b5 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 1.5rem auto;
  max-width: 62rem; padding: 0 1rem }
h1 { font-size: 1.25rem; margin: 0 0 .25rem } h2 { font-size: 1rem; margin: 0 } p { margin: .2rem 0 }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); gap: 1rem; margin: 1rem 0 }
canvas { width: 100%; background: var(--road); border-radius: 6px; display: block }
.bar { display: flex; gap: .75rem; align-items: center } input { flex: 1 } button { min-width: 5rem; padding: .3rem }
.state { font-variant-numeric: tabular-nums; min-height: 1.5em }
"""


def render_drive(playback: Mapping[str, Any]) -> str:
    """The page of `deepval.cells.drives.playback`."""
    script = f'\n"use strict";\n{files("deepval.report").joinpath("drive.js").read_text(encoding="utf-8")}'
    names = [escape(arm["name"]) for arm in playback["arms"]]
    policy = content_policy(styles=[STYLE], scripts=[script])
    halves = "".join(
        f'<section><h2>{name}</h2><canvas width="440" height="660" role="img" aria-label="Drive of {name} from above">'
        '</canvas><canvas width="440" height="30" role="img" aria-label="Escalated frames"></canvas>'
        '<p class="state"></p></section>'
        for name in names
    )
    data = json_packed(playback).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{' and '.join(names)} in closed loop</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(playback['unit'])}: {' and '.join(names)}, {escape(playback['system'])}</h1>\n"
        "<p>The same scene and the same noise of the detector; only the choice of frames to escalate differs. Orange: "
        "an escalated frame. Red: a contact. Ticks along the road are 10 m apart.</p>\n"
        '<div class="bar"><button type="button" id="play">Play</button>'
        '<input type="range" id="frame" min="0" value="0" aria-label="Frame"></div>\n'
        f'<div class="pair">{halves}</div>\n<script type="application/json" id="data">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )
