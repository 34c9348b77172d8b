import os
import stat
import threading
from pathlib import Path

import pytest

from deepval.errors import InputError
from deepval.files import write_atomically


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
        assert reader.read() == "old"  # whoever has it open keeps the whole of the old one
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
    with pytest.raises(InputError, match=r"a.json: must be a file that can be written; No space left on device"):
        write_atomically(tmp_path / "a.json", "x" * 100)
    assert names(tmp_path) == []


def test_what_a_kill_left_behind_goes_with_the_next_write(tmp_path):
    (tmp_path / "a.json.tmp").write_text("half")
    write_atomically(tmp_path / "a.json", "whole")
    assert names(tmp_path) == ["a.json"]


def test_nothing_is_left_when_one_stops_it(tmp_path, monkeypatch):
    def stop(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.json", "x")
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_written_to_is_an_input_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "nowhere" / "a.json", tmp_path / "file" / "a.json", tmp_path, tmp_path / ("n" * 300)):
        with pytest.raises(InputError, match=r"must be a file that can be written; "):
            write_atomically(path, "x")
    assert names(tmp_path) == ["file"]

    def refuse(*_arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"a.json: must be a file that can be written; Permission denied"):
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
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_atomically(pipe, "through")
    reader.join(timeout=10)
    assert read == [b"through"]
    assert pipe.is_fifo()
    assert names(tmp_path) == ["pipe"]
