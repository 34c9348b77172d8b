# deepval: `make demo` shows it, `make test` checks it; both set up what they need in .venv.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest --jaxtyping-packages=deepval,typechecker.check
SHARED ?= $(abspath ../shared)
# Compiled modules are kept, whatever the machine says: tests start commands by the hundred.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick check slow bench lock clean
.DELETE_ON_ERROR:

demo: .venv/core
	$(BIN)/deepval demo --out demo

test: check
	DEEPVAL_SHARED="$(SHARED)" $(PYTEST) -n 2 -m "not slow"

quick: .venv/torch
	$(PYTEST) -n 2 -q -m "not slow and not shared and not browser and not long"

check: .venv/torch
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

slow: .venv/dev .venv/torch .venv/ray .venv/devkit
	DEEPVAL_SHARED="$(SHARED)" $(PYTEST) -m slow -s

bench: .venv/dev
	DEEPVAL_SHARED="$(SHARED)" $(BIN)/python benchmarks/run.py

# The environment: exact versions with hashes; the package itself is linked, not copied.
.venv/core: requirements/core.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/core.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

.venv/dev: .venv/core requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	touch $@

# To train the pixel router and the learned planner, by the build of requirements/torch.txt.
.venv/torch: .venv/dev requirements/torch.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements/torch.txt \
	  --editable '.[torch]' --no-build-isolation
	touch $@

# To work on units by a cluster, with the version of requirements/ray.txt.
.venv/ray: .venv/dev requirements/ray.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements/ray.txt \
	  --editable '.[ray]' --no-build-isolation
	touch $@

# To compare the nuScenes reader with the devkit's, which wants old versions of what we use.
.venv/devkit: .venv/dev
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check nuscenes-devkit==1.2.0

# Maintainers: renew the exact versions (needs uv).
lock:
	uv pip compile pyproject.toml --group build --universal --generate-hashes --no-header --no-annotate -o requirements/core.lock
	uv pip compile pyproject.toml --group build --group dev --universal --generate-hashes --no-header --no-annotate -o requirements/dev.lock

clean:
	rm -rf .venv demo dist build
