"""Commands without a network and with folders of their own: what they write there, and
what they load.

The filter is one of the kernel, so that it binds native libraries, their threads and
child processes too.
"""

import ctypes
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SOCKET = {"x86_64": 41, "aarch64": 198}
"""Number of the system call `socket`, by processor."""
LOCAL = 1
"""AF_UNIX, by which processes of one machine talk."""
LIBRARIES = (
    "cv2",
    "matplotlib",
    "onnxruntime",
    "pyarrow",
    "shapely",
    "sklearn",
    "torch",
)
INHERITED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DEEPVAL_SHARED")
"""Environment variables passed on.

No others: libraries behave differently where, say, CI is set.
"""


class Offline(NamedTuple):
    """How a command ended, what it printed, what it left outside the folders that it
    was given, what it loaded.
    """

    code: int
    out: str
    err: str
    left: list[str]
    loaded: list[str]


def forbid_network() -> None:
    """Have the kernel kill this process, or one that it starts, when it opens a socket
    that is not local.
    """
    load, jump_if_equal, end = 0x20, 0x15, 0x06
    allow, kill_process = 0x7FFF0000, 0x80000000
    call, family = 0, 16  # offsets in `struct seccomp_data`
    steps = [
        (load, 0, 0, call),
        # any other call: skip two steps, to `allow`
        (jump_if_equal, 0, 2, SOCKET[platform.machine()]),
        (load, 0, 0, family),
        # any other family: skip one step, to `kill_process`
        (jump_if_equal, 0, 1, LOCAL),
        (end, 0, 0, allow),
        (end, 0, 0, kill_process),
    ]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    memory = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(memory))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    no_new_privileges, use_filter = (
        (38, 1, 0, 0, 0),
        (22, 2, ctypes.c_char_p(header), 0, 0),
    )
    if prctl(*no_new_privileges) or prctl(*use_filter):
        raise OSError(ctypes.get_errno(), "the filter cannot be installed")


def offline(
    words: Sequence[object], home: Path, *, first: str = "pass", main: str | None = None
) -> Offline:
    """Run a command (or other Python code) in a fresh process without a network.

    Args:
        words: The command.
        home: Folder for its home, temporary, cache and current folders, which are
            watched.
        first: Python code that is run before.
        main: Python code to run instead of a command.
    """
    folders = {
        name: home / name
        for name in ("home", "temporary", "cache", "config", "current")
    }
    for folder in folders.values():
        folder.mkdir(parents=True)
    code = f"""
import atexit, os, sys
from no_network import LIBRARIES, forbid_network
forbid_network()
{first}
atexit.register(lambda: os.write(2, f"LOADED {{' '.join(sorted(set(LIBRARIES) & sys.modules.keys()))}}".encode()))
{main or "from deepval.cli import main; main()"}
"""  # noqa: E501
    environment = {key: os.environ[key] for key in INHERITED if key in os.environ} | {
        "HOME": str(folders["home"]),
        "TMPDIR": str(folders["temporary"]),
        "XDG_CACHE_HOME": str(folders["cache"]),
        "XDG_CONFIG_HOME": str(folders["config"]),
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=folders["current"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    left = sorted(
        str(path.relative_to(home))
        for folder in folders.values()
        for path in folder.rglob("*")
    )
    err, _, loaded = ran.stderr.rpartition("LOADED ")
    return Offline(ran.returncode, ran.stdout, err or ran.stderr, left, loaded.split())
