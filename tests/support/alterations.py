"""Files of a folder -> one of them cut short, with a bit turned, emptied or gone: what
disks and people do to files.
"""

import random
from pathlib import Path

from deepval.basics.errors import InputError
from deepval.driving.cells.folder import read_cell

WAYS = ("bit", "bit", "bit", "cut", "cut", "empty", "gone", "more", "swapped")


def alter(files: list[Path], rng: random.Random) -> tuple[Path, bytes, str]:
    """Alter one file; returns it with what it held, and what was done."""
    path, way = rng.choice(files), rng.choice(WAYS)
    data = path.read_bytes()
    other = rng.choice(files).read_bytes()
    place = rng.randrange(len(data))
    if way == "gone" or (way == "swapped" and other == data):
        path.unlink()
        return path, data, "gone"
    turned = bytearray(data)
    turned[place] ^= 1 << rng.randrange(8)
    made = {
        "bit": bytes(turned),
        "cut": data[:place],
        "empty": b"",
        "more": data + b"\0",
        "swapped": other,
    }[way]
    path.write_bytes(made)
    return path, data, f"{way} at {place}"


def missed(folder: Path, files: list[Path], *, times: int, seed: int) -> list[str]:
    """The alterations, out of so many, with which a cell is still read; each is made
    good again.
    """
    rng, left = random.Random(seed), []
    for _ in range(times):
        path, data, what = alter(files, rng)
        try:
            read_cell(folder)
        except InputError:
            pass
        else:
            left.append(f"{path.relative_to(folder).as_posix()}: {what}")
        path.write_bytes(data)
    return left
