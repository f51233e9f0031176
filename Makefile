# The names a person types. Everything installs what it needs into .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Without compiled files every start compiles imi again, and every run of the tests all of them (8 s for each process).
unexport PYTHONDONTWRITEBYTECODE

# What `make quick` runs: the folders whose tests are mostly pure, and of git, actions and ui the files that a change touches
# most often. Files in SLOW start many processes or real programs (more than 4 s alone). `make test` runs everything.
QUICK  := tests/model tests/store tests/fast tests/links tests/mux tests/sources/agents tests/test_config.py \
          tests/test_house.py tests/test_language.py tests/test_docs.py \
          tests/git/test_git_status.py tests/git/test_layout.py tests/git/test_worktree_list.py \
          tests/actions/test_claim.py tests/actions/test_create.py tests/actions/test_undo.py \
          tests/ui/test_commands.py tests/ui/test_filters.py tests/ui/test_row_list.py tests/ui/test_worktree_order.py
SLOW   := tests/mux/test_multiplexer.py tests/store/test_claims_contended.py tests/store/test_full_disk.py \
          tests/store/test_kills.py tests/store/test_registry_access.py tests/store/test_schema.py \
          tests/sources/agents/test_agents_source.py tests/sources/agents/test_claude_live.py \
          tests/sources/agents/test_claude_records.py tests/sources/agents/test_hook_program.py

.PHONY: run test quick check agents soak mutants snap bench dev docs wheel clean

run: $(VENV)/.ready        ## open the dashboard (ARGS="..." passes arguments to imi)
	@$(BIN)/imi $(ARGS)

test: $(VENV)/.ready       ## the test suite (ARGS="tests/store -k claim" narrows it)
	@$(BIN)/python -m pytest $(ARGS)

quick: $(VENV)/.ready      ## the fast tests, after each change: under a minute on two cores
	@$(BIN)/python -m pytest $(QUICK) $(addprefix --ignore=,$(SLOW)) $(ARGS)

agents: $(VENV)/.ready     ## drive the real agent programs and write docs/agents-matrix.md (needs npm and tmux; minutes)
	@$(BIN)/python -m tests.real_agents $(ARGS)

soak: $(VENV)/.ready       ## the long form of the crash, race and fuzz tests
	@$(BIN)/python -m pytest -m soak --timeout 3600 $(ARGS)

mutants: $(VENV)/.ready    ## change dangerous modules in one place at a time and list what no test notices (ARGS="--seed 1 git")
	@$(BIN)/python -m tests.mutants $(ARGS)

check: $(VENV)/.ready      ## style, types and the layers of the house
	@$(BIN)/ruff check imi_monitor tests bench docs
	@$(BIN)/ruff format --check imi_monitor tests bench docs
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

snap: $(VENV)/.ready       ## accept changed pictures of the screens, after looking at them
	@ACCEPT_PICTURES=1 $(BIN)/python -m pytest tests/ui/test_snapshots.py $(ARGS)

bench: $(VENV)/.ready      ## measure against a floor taken in the same run
	@$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.ready       ## write the generated pages of docs/
	@$(BIN)/python docs/generate.py

dev: $(VENV)/.ready        ## format the code
	@$(BIN)/ruff check --fix imi_monitor tests bench docs
	@$(BIN)/ruff format imi_monitor tests bench docs

wheel: $(VENV)/.ready
	@$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist *.egg-info

# A recent pip writes a console script that starts 4 ms faster than an old one's, so pip comes first.
$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "imi needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@echo "installing imi and what it needs into $(VENV), once; this takes about a minute" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "  1 of 2: pip" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=26'
	@echo "  2 of 2: imi, its libraries and its development tools" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
