"""Files of all kinds -> their content, or one sentence: never a wait, a traceback or
all of the memory.
"""

import errno
import io
import json
import os
import socket
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepval
from commands import PYTHON, run_process
from deepval.basics.errors import LONGEST, InputError, InputWarning, one_line, reason
from deepval.basics.files import canonical, reading
from deepval.basics.files.reading import check_file_form, check_form
from deepval.basics.files.writing import npz_arrays
from only_where import names_are_bytes

SRC = Path(deepval.__file__).parent
NOT_UTF8 = os.fsdecode(b"\xff\xfe")
PROC = Path("/proc/self").exists()


def told(action, *arguments, **options) -> str:
    with pytest.raises(InputError) as caught:
        action(*arguments, **options)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) <= LONGEST + 10
    return text


# What is no file.


def odd_places(folder: Path) -> dict[str, str | Path]:
    """Paths by why they cannot be read."""
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "nowhere").symlink_to(folder / "absent")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(folder / "socket"))
    (folder / "plain").write_text("x")
    return {
        "it is a pipe": folder / "pipe",
        "it is a folder": folder,
        "it is a device": "/dev/zero",
        os.strerror(
            errno.EOPNOTSUPP if sys.platform == "darwin" else errno.ENXIO
        ): folder / "socket",
        "Too many levels of symbolic links": folder / "loop",
        "No such file or directory": folder / "nowhere",
        "File name too long": folder / ("n" * 300),
        "Not a directory": folder / "plain" / "x",
        "embedded null byte": "nul\0",
    } | ({"Input/output error": "/proc/self/mem"} if PROC else {})


def test_what_cannot_be_read_is_said_and_never_waited_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for why, path in odd_places(tmp_path).items():
        assert told(reading.content, path) == one_line(
            f"{path}: must be a file that can be read; {why}."
        )
        assert told(canonical.read_json, path).endswith(
            f"must be a JSON file that can be read; {why}."
        )
        assert told(canonical.read_toml, path).endswith(
            f"must be a TOML file that can be read; {why}."
        )
        assert f"; {why}." in told(canonical.file_digest, path)
        assert reading.is_file(path) == (path == "/proc/self/mem")
    assert not reading.is_folder(tmp_path / ("n" * 300))
    assert not reading.exists(tmp_path / "loop")
    assert reading.resolve(tmp_path / "loop").name == "loop"
    for ask in (reading.entries, lambda path: list(reading.find(path, "*"))):
        assert "must be a folder that can be read; " in told(
            ask, tmp_path / ("n" * 300)
        )


@names_are_bytes
def test_a_name_that_is_not_utf8_is_read_and_spelled_out(tmp_path):
    path = tmp_path / NOT_UTF8
    path.write_text("x")
    assert reading.text(path) == "x"
    assert "\\udcff\\udcfe: must be a JSON file; " in told(canonical.read_json, path)


def test_a_file_that_may_not_be_read_by_another_user(tmp_path):
    """As nobody, in a process of its own: root may read everything."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    tmp_path.chmod(0o755)
    secret, closed = tmp_path / "secret", tmp_path / "closed"
    secret.write_text("x")
    secret.chmod(0)
    closed.mkdir()
    (closed / "file").write_text("x")
    closed.chmod(0o600)
    script = f"""
import sys
sys.path.insert(0, {str(SRC.parent)!r})
from deepval.basics.files import reading, writing
from deepval.basics.errors import InputError
import os
os.setgid(65534), os.setuid(65534)
def told(action, *arguments, **options):
    try:
        action(*arguments, **options)
    except InputError as error:
        print(str(error).partition('; ')[2])
    else:
        print('done')
told(reading.content, {str(secret)!r})
told(reading.content, {str(closed / "file")!r})
told(reading.entries, {str(closed)!r})
told(writing.check_writable, {str(tmp_path / "new")!r})
told(writing.check_writable, {str(tmp_path / "a" / "b")!r}, folder=True)
told(writing.write_atomically, {str(tmp_path / "new")!r}, 'x')
print(reading.is_file({str(closed / "file")!r}))
"""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    done = run_process(script, program=PYTHON)
    assert done.err == ""
    assert done.out.splitlines() == [
        *["Permission denied."] * 3,
        f"{tmp_path} may not be written to.",
        f"{tmp_path} may not be written to.",
        "Permission denied.",
        "False",
    ]


def test_size_is_bounded_before_and_while_reading(tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(2**40)
    assert told(reading.content, path).endswith(
        "a file of at most 4,294,967,296 bytes; it has 1,099,511,627,776."
    )
    path.write_bytes(b"12345")
    assert reading.content(path, largest=5) == b"12345"
    assert told(reading.content, path, largest=4).endswith("at most 4 bytes; it has 5.")
    if not PROC:
        return
    # Files of /proc say that they are empty.
    assert told(reading.content, "/proc/self/status", largest=10).startswith(
        "/proc/self/status: must be a file of at most"
    )
    assert b"Name:" in reading.content("/proc/self/status")


# Text and JSON.


def test_text_is_utf8_with_or_without_a_mark(tmp_path):
    path = tmp_path / "a.txt"
    for mark in (b"", b"\xef\xbb\xbf"):
        path.write_bytes(mark + "é\n".encode())
        assert reading.text(path) == "é\n"
        path.write_bytes(mark + b"a\nb\xe9\n")
        assert told(reading.text, path) == (
            f"{path}: text must be UTF-8; line 2 holds the byte 0xe9. Save it as UTF-8."
        )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[" * 100_000, "lists and objects may nest 100 deep; it goes deeper"),
        (b'{"a":' * 100_000, "lists and objects may nest 100 deep; it goes deeper"),
        (
            b'["]", "\\"[' + b"[" * 500 + b'", ' + b"[" * 100 + b"]" * 101,
            "lists and objects may nest 100 deep",
        ),
        (b"[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
        (b"", "must be a JSON file; it is not JSON."),
        (b'"\\ud800"', "a text in it contains a lone surrogate"),
        (b'{"\\uDC00": 1}', "a text in it contains a lone surrogate"),
        (b"1" * 5000, "Exceeds the limit (4300 digits) for integer string conversion"),
    ],
    ids=range(8),
)
def test_json_that_is_none(data, why):
    assert why in told(canonical.json_content, data, "a.json")


def test_a_table_in_place_of_json_is_named():
    assert told(canonical.json_content, b"unit,input\n", "values.csv") == (
        "values.csv: must be a JSON file; it is a table, which "
        "`deepval evaluate` reads."
    )


def test_json_of_any_shape_up_to_the_depth_is_read():
    deep = b"[" * 100 + b"]" * 100
    assert canonical.json_content(deep, "a.json") == json.loads(deep)
    wide = json.dumps([{"a": ["[" * 200, '"{\\', "é"]} for _ in range(500)]).encode()
    assert canonical.json_content(wide, "a.json") == json.loads(wide)
    assert (
        canonical.json_content(b'"\\ud83d\\ude00 \\\\ud800"', "a.json")
        == "\U0001f600 \\ud800"
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_the_depth_that_is_checked_is_the_depth_that_is_there(content):
    def depth(item: Any) -> int:
        inner = (
            item.values()
            if isinstance(item, dict)
            else item
            if isinstance(item, list)
            else None
        )
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    for data in (
        json.dumps(content).encode(),
        json.dumps(content, ensure_ascii=False).encode(),
    ):
        limit = depth(content)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(canonical, "BLOCK", 7)
            patched.setattr(canonical, "DEEPEST", limit)
            canonical._check_depth(data)
            if limit:
                patched.setattr(canonical, "DEEPEST", limit - 1)
                with pytest.raises(ValueError, match="goes deeper"):
                    canonical._check_depth(data)


# Forms.


@dataclass(frozen=True)
class Inner:
    kind: Literal["a", "b"]
    size: float = 1.0


class Loose(TypedDict):
    needed: int
    other: NotRequired[str | None]


@dataclass(frozen=True)
class Outer:
    name: str
    parts: tuple[Inner, ...]
    pair: tuple[int, str]
    told: dict[str, float | None]
    loose: Loose
    anything: Any = None


GOOD = {
    "name": "x", "parts": [{"kind": "a"}, {"kind": "b", "size": 2}], "pair": [1.0, "y"],
    "told": {"z": None, "w": 1e308}, "loose": {"needed": 3, "more": [1]},
}  # fmt: skip


def test_plain_data_in_its_form():
    assert check_form(Outer, GOOD) == Outer(
        "x",
        (Inner("a"), Inner("b", 2)),
        (1, "y"),
        {"z": None, "w": 1e308},
        {"needed": 3, "more": [1]},
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": 1}, "it.name must be a text; found 1."),
        ({"name": True}, "it.name must be a text; found True."),
        ({"parts": {}}, "it.parts must be a list; found {}."),
        ({"parts": [{}]}, "it.parts[0] must have 'kind'; it has none."),
        (
            {"parts": [{"kind": "c"}]},
            "it.parts[0].kind must be one of a, b; found 'c'.",
        ),
        (
            {"parts": [{"kind": "a", "size": "1"}]},
            "it.parts[0].size must be a finite number; found '1'.",
        ),
        (
            {"parts": [{"kind": "a", "size": True}]},
            "it.parts[0].size must be a finite number; found True.",
        ),
        (
            {"parts": [{"kind": "a", "size": float("nan")}]},
            "it.parts[0].size must be a finite number; found nan.",
        ),
        (
            {"parts": [{"kind": "a", "size": 10**400}]},
            "it.parts[0].size must be a finite number; found 1000",
        ),
        (
            {"parts": [{"kind": ["a"]}]},
            "it.parts[0].kind must be one of a, b; found ['a'].",
        ),
        (
            {"parts": [{"kind": "a", "weight": 1}]},
            "it.parts[0] may have kind, size; found 'weight'.",
        ),
        ({"parts": [3]}, "it.parts[0] must be an object; found 3."),
        ({"pair": [1]}, "it.pair must be a list of 2; found 1."),
        ({"pair": [1.5, "y"]}, "it.pair[0] must be a whole number; found 1.5."),
        ({"told": {"z": []}}, "it.told.z must be a finite number; found []."),
        ({"loose": {}}, "it.loose must have 'needed'; it has none."),
        (
            {"loose": {"needed": 1, "other": 5}},
            "it.loose.other must be a text; found 5.",
        ),
    ],
)
def test_data_that_is_not_in_its_form(change, sentence):
    assert told(check_form, Outer, {**GOOD, **change}).startswith(sentence)
    assert told(
        check_file_form, Outer, {**GOOD, **change}, "a.json", "a thing"
    ).startswith(f"a.json: must be a thing; {sentence}")


# One line.


@given(st.text(st.characters(codec=None)))
def test_every_sentence_is_one_printable_line(text):
    for made in (InputError, InputWarning):
        said = str(made(text))
        assert said.isprintable()
        assert len(said) <= 10 * LONGEST
        assert str(made(said)) == said or len(said) > LONGEST


def test_a_long_sentence_keeps_its_beginning_and_its_end():
    said = str(InputError("must be short; " + "x" * 10**6 + ". Shorten it."))
    assert said.startswith("must be short; xxx")
    assert said.endswith("xxx. Shorten it.")
    assert len(said) < LONGEST + 10


def test_reasons_are_the_first_line_of_what_failed():
    assert reason(OSError(2, "No such file")) == "No such file"
    assert reason(ValueError("one.\ntwo")) == "one"
    assert reason(KeyError()) == "KeyError"


# The law: files are read in one place.

DIRECT = {
    "basics/files/reading.py",
    "basics/files/writing.py",
    "basics/files/canonical.py",
    # The package's own files, those of the system's devices, and what a child process
    # of ours says.
    "judge/report/html/__init__.py",
    "judge/report/study.py",
    "deploy/board/store.py",
    "driving/metering/energy.py",
    "driving/metering/timing.py",
    "basics/errors.py",
    "basics/files/bounded.py",
    "basics/files/child.py",
    "deploy/board/submission_child.py",
    "basics/files/pickles.py",
    "deploy/board/submissions.py",
    "paper/published_figures.py",
    "judge/tables/costs.py",
    "judge/tables/chunks.py",
}
READS = (
    *(
        ".read_bytes(",
        ".read_text(",
        '.open("rb")',
        "json.loads(",
        "json.load(",
        "imread(",
    ),
    *(".is_file()", ".is_dir()", ".exists()", ".glob(", ".rglob(", ".iterdir()"),
)


def test_files_are_read_through_one_module():
    found = {
        f"{path.relative_to(SRC)}: {sign}"
        for path in SRC.rglob("*.py")
        if str(path.relative_to(SRC)) not in DIRECT
        for sign in READS
        if sign in path.read_text(encoding="utf-8")
    }
    assert found == set()


def test_pictures_are_bounded_by_their_heads():
    from deepval.basics.files.reading import check_pixels, size_px

    cv2 = pytest.importorskip("cv2")
    small = cv2.imencode(".png", np.zeros((4, 6, 3), np.uint8))[1].tobytes()
    assert size_px(small) == (6, 4)
    check_pixels(small, "a.png")
    assert size_px(b"no picture") is None
    for side in (8193, 40_000, 2_000_000_000):
        lying = small[:16] + side.to_bytes(4, "big") * 2 + small[24:]
        import zlib

        lying = lying[:29] + zlib.crc32(lying[12:29]).to_bytes(4, "big") + lying[33:]
        assert "a.png: must be a picture that can be decoded; it has " in told(
            check_pixels, lying, "a.png"
        )


def test_archives_are_bounded_and_damaged_ones_are_said():
    file = io.BytesIO()
    np.savez_compressed(
        file,
        a=np.arange(1000),
        b=np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        c=np.array("text"),
    )
    data = file.getvalue()
    held = npz_arrays(data)
    assert {name: held[name].tolist() for name in "bc"} == {
        "b": [[0, 1, 2], [3, 4, 5]],
        "c": "text",
    }
    with pytest.raises(ValueError, match="are more than"):
        npz_arrays(data, largest=1000)
    for header in (
        {"descr": "<f8", "fortran_order": False, "shape": (10**12,)},
        {"descr": "|O", "shape": (1,)},
    ):
        lying, member = io.BytesIO(), io.BytesIO()
        np.lib.format.write_array_header_1_0(member, {"fortran_order": False, **header})
        with zipfile.ZipFile(lying, "w") as archive:
            archive.writestr("a.npy", member.getvalue() + bytes(8))
        with pytest.raises(ValueError, match="must hold"):
            npz_arrays(lying.getvalue())
    rng, found = np.random.default_rng(0), 0
    for place in rng.integers(0, len(data), 300):
        turned = bytearray(data)
        turned[place] ^= 1 << rng.integers(8)
        try:
            npz_arrays(bytes(turned))
        except ValueError:
            found += 1
    assert found > 200
