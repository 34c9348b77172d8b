"""Coverage-guided fuzzing of readers for a bounded time, where atheris is installed (it
is not in the lock files).

Run: python tests/slow/fuzz_atheris.py [SECONDS [NAME ...]], with each NAME one of
tests/slow/test_fuzz.py; without, all of them. A crash is printed with the bytes that
made it; they become a regression test.
"""

import importlib
import os
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).parents[1] / "support"),
    str(Path(__file__).parents[1]),
]


def main() -> int:
    """Fuzz reader after reader, each in a fork, since libFuzzer ends its process;
    returns how many crashed.
    """
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        raise SystemExit(
            "atheris is not installed: pip install atheris (Linux, CPython up to 3.13)."
        ) from None
    seconds, *names = sys.argv[1:] or ["60"]
    with atheris.instrument_imports(include=["deepval"]):
        fuzzed = importlib.import_module("fuzzed")
    crashes = 0
    with tempfile.TemporaryDirectory() as home:
        for target in fuzzed.targets(Path(home)):
            if names and target.name not in names:
                continue
            corpus = Path(home) / "corpus" / target.name
            corpus.mkdir(parents=True)
            (corpus / "real").write_bytes(target.data)

            def one(data: bytes, target=target) -> None:
                told = fuzzed.crash(target, data)
                if told:
                    print(f"{target.name}: {told}: {data!r}", flush=True)
                    raise RuntimeError(told)

            words = [
                sys.argv[0],
                f"-max_total_time={seconds}",
                f"-artifact_prefix={home}/",
                str(corpus),
            ]
            process = os.fork()
            if not process:
                atheris.Setup(words, one)
                atheris.Fuzz()
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            print(
                f"{target.name}: {'crashed' if code else 'nothing found'}", flush=True
            )
            crashes += code != 0
    return crashes


if __name__ == "__main__":
    sys.exit(main())
