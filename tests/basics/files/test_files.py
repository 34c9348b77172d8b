import errno
import fcntl
import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deepval.basics.errors import InputError, UnfinishedError
from deepval.basics.files.canonical import json_lines
from deepval.basics.files.writing import (
    append_line,
    check_writable,
    lock,
    lock_of_file,
    write_atomically,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("content", ["ä = 1\r\n", "", b"\x00\xff", b""])
def test_a_file_holds_what_was_written(tmp_path, content):
    expected = content.encode() if isinstance(content, str) else content
    for path in (tmp_path / "a.json", str(tmp_path / "b.json")):
        write_atomically(path, content)
        assert Path(path).read_bytes() == expected
    assert names(tmp_path) == ["a.json", "b.json"]


def test_a_file_can_be_read_by_others(tmp_path):
    write_atomically(tmp_path / "a.json", "x")
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o644


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, "old")
    with path.open() as reader:
        write_atomically(path, "new")
        # whoever has it open keeps the whole of the old one
        assert reader.read() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.json"]


def test_a_relative_path_is_written_where_one_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomically("a.json", "x")
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError()])
def test_nothing_half_written_is_left_when_writing_fails(tmp_path, monkeypatch, error):
    path = tmp_path / "a.json"
    write_atomically(path, "old")

    def fail(*_args):
        raise error

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match=r"a.json: must be a file that can be written"):
        write_atomically(path, "new")
    assert names(tmp_path) == ["a.json"]
    assert path.read_text() == "old"


def test_nothing_half_written_is_left_when_the_disk_is_full(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        InputError,
        match=r"a.json: must be a file that can be written; No space left on device",
    ):
        write_atomically(tmp_path / "a.json", "x" * 100)
    assert names(tmp_path) == []


def test_what_a_kill_left_of_a_file_goes_with_the_next_write_and_what_is_being_written_stays(  # noqa: E501
    tmp_path,
):
    left = tmp_path / ".a[1].json.0123abcd.tmp"
    others = {".b.json.0123abcd.tmp", ".a[1].json.tmp", ".a1.json.0123abcd.tmp"}
    for name in (left.name, *others):
        (tmp_path / name).write_text("half")
    with left.open() as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        write_atomically(tmp_path / "a[1].json", "whole")
    assert left.exists()
    write_atomically(tmp_path / "a[1].json", "whole")
    assert set(names(tmp_path)) == {"a[1].json", *others}


@pytest.mark.parametrize("name", ["a.json.tmp", ".a.json.tmp", "a.json.part"])
def test_a_file_or_link_of_a_temporary_looking_name_is_left_alone(tmp_path, name):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / name).symlink_to(tmp_path / "mine")
    write_atomically(tmp_path / "a.json", "new")
    assert (tmp_path / "mine").read_text() == "precious"
    assert (tmp_path / name).is_symlink()
    (tmp_path / name).unlink()
    (tmp_path / name).write_text("also precious")
    write_atomically(tmp_path / "a.json", "newer")
    assert (tmp_path / name).read_text() == "also precious"
    assert not (tmp_path / "a.json").is_symlink()


def test_a_temporary_name_that_is_taken_is_neither_opened_nor_removed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("secrets.token_hex", lambda _: "01234567")
    (tmp_path / "mine").write_text("precious")
    (tmp_path / ".a.json.01234567.tmp").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="File exists"):
        write_atomically(tmp_path / "a.json", "new")
    assert (tmp_path / "mine").read_text() == "precious"
    assert names(tmp_path) == [".a.json.01234567.tmp", "mine"]


def test_the_longest_name_a_file_can_have(tmp_path):
    for name in ("n" * 255, "ä" * 127):
        write_atomically(tmp_path / name, "x")
        assert (tmp_path / name).read_text() == "x"


def test_permissions_are_those_of_any_new_file(tmp_path):
    for mask in (0o022, 0o027, 0o077):
        before = os.umask(mask)
        try:
            write_atomically(tmp_path / f"{mask}.json", "x")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"{mask}.json").stat().st_mode) == 0o666 & ~mask


WRITER = """
import sys
from deepval.basics.files.writing import append_line, check_writable
from deepval.basics.files.writing import lock, write_atomically
path, letter, times = sys.argv[1:]
for _ in range(int(times)):
    write_atomically(path, letter * 200_000)
    with open(path) as file:
        found = set(file.read())
    assert len(found) == 1, found
"""


def test_writers_of_one_file_never_mix_nor_fail(tmp_path):
    words = [sys.executable, "-c", WRITER, str(tmp_path / "a.json")]
    writers = [
        subprocess.Popen([*words, letter, "40"], stderr=subprocess.PIPE, text=True)
        for letter in "abc"
    ]
    told = [writer.communicate()[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], told
    assert names(tmp_path) == ["a.json"]
    assert len((tmp_path / "a.json").read_text()) == 200_000


def test_links_in_a_circle_are_an_input_error(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InputError, match="must be a file that can be written"):
        write_atomically(tmp_path / "a", "x")


def test_a_folder_is_held_by_one_process_and_free_after_a_kill(tmp_path):
    hold = (
        "import sys, pathlib, deepval.basics.files.writing as f\n"
        "with f.lock(pathlib.Path(sys.argv[1]), 'busy'):\n"
    )
    hold += "    print('held', flush=True)\n    sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="busy"), lock(tmp_path, "busy"):
            pass
        holder.kill()
    with lock(tmp_path, "busy"):
        pass
    assert names(tmp_path) == []


def test_a_file_system_without_locks_is_no_error(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with lock(tmp_path, "busy"):
        pass


def test_what_cannot_be_written_is_seen_before_the_work(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (
        tmp_path,
        tmp_path / "nowhere" / "a.json",
        tmp_path / "file" / "a.json",
    ):
        with pytest.raises(InputError, match="must be a file that can be written"):
            check_writable(path)
    for path in (tmp_path / "file", tmp_path / "file" / "deep" / "er"):
        with pytest.raises(InputError, match="must be a folder that can be written"):
            check_writable(path, folder=True)
    for path in (tmp_path / "file", tmp_path / "new", Path("new"), Path("/dev/stdout")):
        check_writable(path)
    for path in (tmp_path, tmp_path / "new" / "er", Path("new")):
        check_writable(path, folder=True)
    assert names(tmp_path) == ["file"]


def test_nothing_is_left_when_one_stops_it(tmp_path, monkeypatch):
    def stop(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.json", "x")
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_written_to_is_an_input_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    for path in (
        tmp_path / "nowhere" / "a.json",
        tmp_path / "file" / "a.json",
        tmp_path,
        tmp_path / ("n" * 300),
    ):
        with pytest.raises(InputError, match=r"must be a file that can be written; "):
            write_atomically(path, "x")
    assert names(tmp_path) == ["file"]

    def refuse(*_arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(
        InputError,
        match=r"a.json: must be a file that can be written; Permission denied",
    ):
        write_atomically(tmp_path / "a.json", "x")


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "a.json")
    for content in ("new", "newer"):
        write_atomically(tmp_path / "link.json", content)
        assert (tmp_path / "link.json").is_symlink()
        assert (tmp_path / "real" / "a.json").read_text() == content
    assert names(tmp_path / "real") == ["a.json"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(
        InputError, match="no process reads this pipe: start its reader first"
    ):
        write_atomically(pipe, "not waited for")
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write_atomically(pipe, "through")
        assert reader.read() == b"through"
    assert pipe.is_fifo()
    assert names(tmp_path) == ["pipe"]


def test_a_line_is_appended_whole_though_the_system_takes_it_in_parts(
    tmp_path, monkeypatch
):
    write = os.write
    monkeypatch.setattr(
        os, "write", lambda handle, data: write(handle, bytes(data)[:3])
    )
    for text in ("first", "second"):
        append_line(tmp_path / "log", text)
    assert (tmp_path / "log").read_text() == "first\nsecond\n"


def limited(bound):
    """Files of this process may not grow beyond a bound: the first bytes are written,
    then no more.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (bound, resource.RLIM_INFINITY))


def test_a_line_without_room_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "log"
    append_line(path, "first")
    limited(10)
    try:
        with pytest.raises(
            InputError,
            match=r"log: must be a file that can be written; File too large\.$",
        ):
            append_line(path, "second line")
    finally:
        limited(resource.RLIM_INFINITY)
    assert path.read_text() == "first\n"
    append_line(path, "third")
    assert path.read_text() == "first\nthird\n"


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="/dev/full is a device of Linux"
)
def test_a_line_for_a_full_device_is_refused():
    with pytest.raises(
        InputError,
        match=(
            r"/dev/full: must be a file that can be written; No space left on device\.$"
        ),
    ):
        append_line("/dev/full", "a line")


def test_json_in_lines_is_the_same_content_with_one_line_for_each_record():
    records = [{"b": 1.5, "a": None, "c": "x\ny"}, {"a": 2, "b": -0.0, "c": "\u00e9"}]
    content = {"rows": records, "empty": [], "nested": {"deep": [[1, 2], {}]}, "n": 3}
    text = json_lines(content)
    assert json.loads(text) == content
    assert '{"a":null,"b":1.5,"c":"x\\ny"},\n' in text
    assert text == json_lines(json.loads(text))
    many = {"rows": 1000 * records}
    assert json_lines(many).count("\n") == 2000 + 4
    assert len(json_lines(many)) < 0.8 * len(json.dumps(many, indent=1, sort_keys=True))


def test_a_file_that_is_replaced_is_locked_beside_it(tmp_path):
    path = tmp_path / "state.json"
    with lock_of_file(path, "busy"):
        path.write_text("{}")
        with pytest.raises(UnfinishedError, match="busy"), lock_of_file(path, "busy"):
            pass
        with lock_of_file(tmp_path / "other.json", "busy"):
            pass  # the folder is not locked
    with lock_of_file(path, "busy"):
        pass
    assert [own.name for own in tmp_path.iterdir()] == ["state.json"]
