"""The styles and scripts of a page -> a content security policy that allows these only and loads nothing."""

from base64 import b64encode
from collections.abc import Sequence

from deepval.files.canonical import sha256


def content_policy(*, styles: Sequence[str], scripts: Sequence[str] = (), images: str = "") -> str:
    """The policy of a page, for its <meta>.

    Args:
        styles: The exact texts of its <style> elements.
        scripts: The exact texts of its <script> elements.
        images: Allowed sources of pictures, such as `data:`.
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
