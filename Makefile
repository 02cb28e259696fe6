# `make run` and `make test` work on a fresh clone: they need Python 3.11 or newer, git and make.
# `make run UV=` takes venv and pip where uv would be used; `make run PYTHON=python3.12` names the Python.

VENV := .venv
BIN := $(VENV)/bin
UV ?= $(shell command -v uv 2>/dev/null)
ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for each in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$each -c '$(ENOUGH)' 2>/dev/null && echo $$each && break; done)

ifneq ($(UV),)
INSTALL_INTO = $(UV) pip install --quiet --python $(1)/bin/python
MAKE_VENV := $(UV) venv --quiet --python
else
INSTALL_INTO = $(1)/bin/python -m pip install --quiet --disable-pip-version-check
MAKE_VENV := $(PYTHON) -m venv
endif
INSTALL := $(call INSTALL_INTO,$(VENV))

# Several workers at once, how many is in tests/conftest.py. One, to debug: make test ARGS="-n0 tests/FILE"
TEST := $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: run install test check fix bench lock local servers extra clean

run: $(VENV)/run.stamp
	@$(BIN)/trunkline run

# The program alone, for a server.
install: $(VENV)/run.stamp

test: $(VENV)/dev.stamp
	$(TEST) $(ARGS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p trunkline.agent -p trunkline.adapters -p trunkline.gateway
	$(BIN)/lint-imports
	$(TEST) $(ARGS)

fix: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# make bench NAME=recall ARGS=--json
bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench.$(NAME) $(ARGS)

# The server for model files, for `trunkline model try` and the tests that talk to a real model.
local: $(VENV)/local.stamp

# The servers of memory providers that the tests run on, and the one that is a program of npm's, each in an
# environment of its own.
SERVERS := byterover hindsight openviking
servers: $(SERVERS:%=$(VENV)/servers/%.stamp)

# What an extra needs, such as make extra NAME=mcp
extra: $(VENV)/run.stamp
	$(INSTALL) 'trunkline[$(NAME)]'

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock" $(LOCK_ARGS)

# make lock LOCK_ARGS=--upgrade takes the newest versions
lock:
	$(COMPILE) pyproject.toml --group build --extra documents -o requirements/run.txt
	$(COMPILE) pyproject.toml --group build --group dev --extra documents -c requirements/run.txt -o requirements/dev.txt
	$(COMPILE) pyproject.toml --group build --extra documents --extra local -c requirements/run.txt -o requirements/local.txt
	$(foreach each,$(SERVERS),$(COMPILE) requirements/servers/$(each).in \
	  $(patsubst %,--excludes %,$(wildcard requirements/servers/$(each).excludes)) -o requirements/servers/$(each).txt &&) true
	$(MAKE) $(VENV)/servers/byterover.stamp
	cd requirements/servers/byterover && PATH="$(abspath $(VENV))/servers/byterover/bin:$$PATH" npm update --package-lock-only

clean:
	rm -rf $(VENV) build dist trunkline.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(VENV)/pyvenv.cfg:
	@test -d trunkline/gateway/ || { echo "The links in trunkline/ are plain files here. Run \`git config" \
	  "core.symlinks true\` and \`git checkout -- trunkline\`; on Windows work in WSL." >&2; exit 1; }
	@test -n "$(PYTHON)" || { echo "Trunkline needs Python 3.11 or newer; install it, or name it:" \
	  "make run PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c '$(ENOUGH)' || { echo "$(PYTHON) is older than Python 3.11, which Trunkline needs." >&2; exit 1; }
ifeq ($(UV),)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python can't make environments: install" \
	  "its venv package (Debian: apt install python3-venv), or uv." >&2; exit 1; }
	@$(MAKE_VENV) $(VENV)
else
	@$(MAKE_VENV) $(PYTHON) $(VENV)
endif

# The packages that a server can do without are left out of its list, so nothing but the list is installed, and
# what a script beside it installs.
.SECONDEXPANSION:
$(VENV)/servers/%.stamp: requirements/servers/%.txt $$(wildcard requirements/servers/$$*/*) | $(VENV)/pyvenv.cfg
	@echo "Installing the server $*"
	@rm -rf $(@:.stamp=)
	@$(MAKE_VENV) $(if $(UV),$(PYTHON)) $(@:.stamp=)
	@$(call INSTALL_INTO,$(@:.stamp=)) --no-deps --require-hashes -r $<
	@test ! -e $(<:.txt=)/install || sh $(<:.txt=)/install $(@:.stamp=)
	@touch $@

$(VENV)/%.stamp: requirements/%.txt pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "Installing what requirements/$*.txt lists into $(VENV)"
	@$(INSTALL) --require-hashes -r requirements/$*.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@
