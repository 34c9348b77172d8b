"""A planner's files -> their hashes, and whether they are the published ones, which git's hash of them tells."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import sha256

Origin = Literal["published", "trained here, not the published weights", "not verified to be the published files"]
PUBLISHED: Origin = "published"
TRAINED_HERE: Origin = "trained here, not the published weights"
UNVERIFIED: Origin = "not verified to be the published files"
BLOBS = {
    "weights": "7e486090566a7f4f1cb7a1910a6598410779982d",
    "masks": "9ebbafd0a0c83bc79211879668ad493e81871762",
}
"""What git calls the published planner.pt and masks_trainval.json: the SHA-1 of a header and the content."""
GET = (
    "take planner.pt and masks_trainval.json of planning-centric metrics (PKL), or weights.npz and masks.npz that "
    "`deepval planner train` writes"
)


@dataclass(frozen=True, eq=False)
class PlannerFile:
    """One file, read once: what is hashed is what is used."""

    path: Path
    data: bytes

    @property
    def sha256(self) -> str:
        """Its SHA-256."""
        return sha256(self.data)

    def is_published(self, kind: Literal["weights", "masks"]) -> bool:
        """Whether it is the published file, byte for byte."""
        blob = hashlib.sha1(b"blob %d\0" % len(self.data) + self.data, usedforsecurity=False)
        return blob.hexdigest() == BLOBS[kind]


def read_file(path: Path | str, kind: Literal["weights", "masks"]) -> PlannerFile:
    """A file of a planner."""
    try:
        return PlannerFile(Path(path), reading.content(path, f"a planner's {kind}"))
    except InputError as error:
        raise InputError(f"{str(error).removesuffix('.')}: {GET}.") from error
