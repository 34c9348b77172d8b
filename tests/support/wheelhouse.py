"""Tiny wheels of the installed packages, so that pip installs into a fresh environment
without an index.

Each wheel has the name, version and requirements of an installed package, and a .pth
file that points to its modules. pip resolves requirements as it would with an index, so
an environment holds what was installed and nothing else.
"""

import base64
import hashlib
import re
import zipfile
from importlib.metadata import Distribution, distributions
from pathlib import Path


def write_wheelhouse(folder: Path) -> Path:
    """Write a wheel for each installed package but deepval; returns the folder for `pip
    install --find-links`.
    """
    wheels, modules = folder / "wheels", folder / "modules"
    wheels.mkdir(parents=True)
    for package in distributions():
        if package.name != "deepval":
            _write_wheel(package, wheels, modules / package.name)
    return wheels


def _write_wheel(package: Distribution, wheels: Path, modules: Path) -> None:
    modules.mkdir(parents=True, exist_ok=True)
    for top in {Path(file).parts[0] for file in package.files or ()}:
        source = Path(str(package.locate_file(top)))
        if (
            top not in ("..", "__pycache__")
            and not top.endswith((".dist-info", ".pth"))
            and source.exists()
        ):
            (modules / top).symlink_to(source)
    name = re.sub(r"[-_.]+", "_", package.name)
    info = f"{name}-{package.version}.dist-info"
    contents = {
        f"{name}.pth": f"{modules}\n",
        f"{info}/METADATA": package.read_text("METADATA") or "",
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: deepval tests\nRoot-Is-Purelib: true\n"
            "Tag: py3-none-any\n"
        ),
    }
    contents[f"{info}/RECORD"] = "".join(
        f"{path},{_digest(text)},\n" for path, text in contents.items()
    )
    with zipfile.ZipFile(
        wheels / f"{name}-{package.version}-py3-none-any.whl", "w"
    ) as wheel:
        for path, text in contents.items():
            wheel.writestr(path, text)


def _digest(text: str) -> str:
    code = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"sha256={code.decode().rstrip('=')}"
