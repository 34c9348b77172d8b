"""Texts that a page carries -> a content security policy under which nothing else styles or runs, and nothing loads."""

from base64 import b64encode
from collections.abc import Sequence

from deepval.files.canonical import sha256


def content_policy(*, styles: Sequence[str], scripts: Sequence[str] = (), images: str = "") -> str:
    """The policy of a page, for its <meta>.

    Args:
        styles: What stands in its <style> elements, to the character.
        scripts: What stands in its <script> elements likewise.
        images: Where pictures may come from, such as `data:`.
    """
    sources = {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "style-src": " ".join(map(_hash, styles)),
        "script-src": " ".join(map(_hash, scripts)),
        "img-src": images,
    }
    return "; ".join(f"{name} {source}" for name, source in sources.items() if source)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(bytes.fromhex(sha256(text.encode()))).decode()}'"
