"""Coverage-guided fuzzing of a reader for a bounded time, where atheris is installed (it is not in the lock files).

Run: python tests/slow/fuzz_atheris.py [NAME [SECONDS]], with NAME one of tests/slow/test_fuzz.py. A crash is printed
with the bytes that made it; they become a regression test.
"""

import importlib
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))


def main() -> None:
    """Fuzz one reader."""
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        raise SystemExit("atheris is not installed: pip install atheris (Linux, CPython up to 3.13).") from None
    name, seconds = (*sys.argv[1:3], *("result.json", "60")[len(sys.argv) - 1 :])[:2]
    with atheris.instrument_imports(include=["deepval"]):
        fuzzed = importlib.import_module("fuzzed")
    with tempfile.TemporaryDirectory() as home:
        target = next(item for item in fuzzed.targets(Path(home)) if item.name == name)
        corpus = Path(home) / "corpus"
        corpus.mkdir()
        (corpus / "real").write_bytes(target.data)

        def one(data: bytes) -> None:
            told = fuzzed.crash(target, data)
            if told:
                print(f"{name}: {told}: {data!r}")
                raise RuntimeError(told)

        atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", str(corpus)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
