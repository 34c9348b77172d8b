#!/usr/bin/env bash
# Checks every submission and writes the leaderboard: what the GitHub Action runs, and what anyone can run at home.
#   tools/score_submission.sh SUBMISSIONS CELLS OUT [further options of deepval leaderboard]
# PYTHON names an interpreter that has deepval; without it, deepval's repository makes its own environment, and any
# other repository uses python3. Where CELLS holds no cell, the synthetic track is built there. Exits with 2 if a
# submission is refused; the leaderboard stands either way.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
submissions=$1 cells=$2 out=$3
shift 3
if [ -z "${PYTHON:-}" ] && [ -d "$root/src/deepval" ]; then
  make -C "$root" ENV=.venv-make .venv-make/core
  PYTHON=$root/.venv-make/bin/python
fi
PYTHON=${PYTHON:-python3}
if ! "$PYTHON" -P -c "import deepval" 2> /dev/null; then
  echo "deepval must be installed for $PYTHON; it is not: install it there, or set PYTHON to an interpreter that has it." >&2
  exit 2
fi
# Every submission is read by a process with bounds of its own; these are for the whole. -P keeps the working folder
# off Python's path.
ulimit -v 8000000 || [ "$(uname)" = Darwin ] # which bounds no memory
ulimit -t 3600
deepval() { "$PYTHON" -P -m deepval "$@"; }
if [ -z "$(find "$cells" -name manifest.json -print -quit 2>/dev/null)" ]; then
  deepval build --out "$cells" --geometry monocular --geometry oracle --system braking --system receding-horizon \
    --costs jetson-agx-xavier
fi
code=0
deepval leaderboard "$submissions" --cells "$cells" --out "$out" --strict "$@" || code=$?
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$out/leaderboard.md" ]; then
  cat "$out/leaderboard.md" >> "$GITHUB_STEP_SUMMARY"
fi
exit $code
