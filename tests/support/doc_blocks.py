"""A page of the docs -> its blocks of code, run one after the other as a reader would,
in the current folder.

`python` is executed, `pycon` is compared with what it prints, and so is `console`:
lines that begin with `$`, then what they print, with or without the notes on stderr
("..." stands for anything). A command
must fail iff a sentence of deepval's that is no note stands below it. A command with
<<'END' has its text below it, up to the line END. With `shell`, every command is run by
a shell.
"""

import doctest
import os
import re
import shlex
from pathlib import Path
from typing import Any

from commands import SCRIPT, run, run_process

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Language and content of each fenced block."""
    return re.findall(
        r"^```(\w*)\n(.*?)^```",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )


def run_page(
    page: Path, *, shown: tuple[str, ...] = (), shell: bool = False, **names: Any
) -> dict[str, Any]:
    """Run every block of a page; languages in `shown` are there to be read.

    Returns the names that it leaves.
    """
    names["__name__"] = page.stem
    for number, (language, content) in enumerate(blocks_of(page)):
        place = f"{page.name}, block {number + 1}"
        if language == "python":
            exec(compile(content, place, "exec"), names)
        elif language == "pycon":
            _check_examples(content, names, place)
        elif language == "console":
            for command, expected, is_refused in commands_of(content):
                _check_command(
                    command, expected, place, is_refused=is_refused, shell=shell
                )
        else:
            assert language in shown, f"{place}: nothing runs {language!r}"
    return names


def _check_examples(content: str, names: dict[str, Any], place: str) -> None:
    test = doctest.DocTestParser().get_doctest(content, names, place, None, None)
    said: list[str] = []
    found = doctest.DocTestRunner(optionflags=FLAGS).run(
        test, out=said.append, clear_globs=False
    )
    assert found.attempted, place
    assert not found.failed, "".join(said)
    names.update(test.globs)


def commands_of(content: str) -> list[tuple[str, str, bool]]:
    """Each command with what is shown below it, and whether that refuses."""
    joined = content.replace("\\\n", " ")
    parts = re.split(
        r"^\$ (.*<<'END'\n(?:.*\n)*?END|.*)\n?", joined, flags=re.MULTILINE
    )
    assert not parts[0].strip(), parts[0]
    commands = []
    for command, expected in zip(parts[1::2], parts[2::2], strict=True):
        refusal = re.search(r"^deepval: (?!note: )", expected, flags=re.MULTILINE)
        commands.append((command, expected, refusal is not None))
    return commands


def _check_command(
    command: str, expected: str, place: str, *, is_refused: bool, shell: bool
) -> None:
    words = [] if shell or "<<" in command else shlex.split(command, comments=True)
    if words[:1] == ["deepval"]:
        code, out, err = run(*words[1:], notes=True)
    else:
        path = {
            "PATH": f"{Path(*SCRIPT).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "80",
        }
        code, out, err = run_process(
            command, program=("bash", "-c"), env={**os.environ, **path}
        )
    assert (code != 0) == is_refused, (
        f"{place}: {command}\nexit code {code}\n{out}{err}"
    )
    if expected.strip():
        checker = doctest.OutputChecker()
        texts = [out] if out and not is_refused else []
        same = any(
            checker.check_output(expected, text, FLAGS) for text in (err + out, *texts)
        )
        assert same, f"{place}: {command}\nexpected:\n{expected}\nfound:\n{err}{out}"
