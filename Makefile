# deepval: `make demo` shows it, `make test` checks it; both set up what they need in an environment of their own.
PYTHON ?= python3
# A copy of the package in .venv (`pip install .`) is the user's: it stays, and make sets up another environment.
ENV := $(if $(wildcard .venv/lib/python*/site-packages/deepval),.venv-make,.venv)
BIN := $(ENV)/bin
PYTEST := $(BIN)/python -m pytest --jaxtyping-packages=deepval,typechecker.check
SHARED ?= $(abspath ../shared)
# Compiled modules are kept, whatever the machine says: tests start commands by the hundred.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick check slow bench docs lock clean
.DELETE_ON_ERROR:

demo: $(ENV)/core
	$(BIN)/deepval demo --out demo

test: check
	DEEPVAL_SHARED="$(SHARED)" $(PYTEST) -n 2 -m "not slow"

quick: $(ENV)/torch
	$(PYTEST) -n 2 -q -m "not slow and not shared and not browser and not long"

check: $(ENV)/torch
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

slow: $(ENV)/dev $(ENV)/torch $(ENV)/devkit
	DEEPVAL_SHARED="$(SHARED)" $(PYTEST) -m slow -s

bench: $(ENV)/dev
	DEEPVAL_SHARED="$(SHARED)" $(BIN)/python benchmarks/run.py

# The pages as a site in ./site, with search and the Python reference; nothing foreign is loaded.
docs: $(ENV)/docs
	NO_MKDOCS_2_WARNING=1 $</bin/mkdocs build --strict --quiet
	@echo "site/index.html opens from disk; with search: $(PYTHON) -m http.server --bind 127.0.0.1 --directory site"

# The environment: exact versions with hashes of what the extras fit, parquet and plot need; the package itself is
# linked, not copied.
$(ENV)/core: requirements/core.lock pyproject.toml
	$(PYTHON) -m venv $(ENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/core.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

$(ENV)/dev: $(ENV)/core requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	touch $@

# To train the pixel router and the learned planner, by the build of requirements/torch.txt.
$(ENV)/torch: $(ENV)/dev requirements/torch.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements/torch.txt \
	  --editable '.[torch]' --no-build-isolation
	touch $@

# To compare the nuScenes reader with the devkit's, which wants old versions of what we use.
$(ENV)/devkit: $(ENV)/dev
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check nuscenes-devkit==1.2.0

# To build the site; apart, because its tools need nothing of the package, which they read without importing it.
$(ENV)/docs: requirements/docs.lock
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.lock
	touch $@

# Maintainers: renew the exact versions (needs uv).
lock:
	uv pip compile pyproject.toml --extra fit --extra plot --group build \
	  --universal --generate-hashes --no-header --no-annotate -o requirements/core.lock
	uv pip compile pyproject.toml --extra fit --extra plot --group build --group dev \
	  --universal --generate-hashes --no-header --no-annotate -o requirements/dev.lock
	uv pip compile --group docs --universal --generate-hashes --no-header --no-annotate -o requirements/docs.lock

clean:
	rm -rf $(ENV) demo dist build site
