# `just` lists the targets. All but `setup` and `gate` use the tools of the active environment.

export OPENBLAS_NUM_THREADS := "1"
export OMP_NUM_THREADS := "1"

# list the targets
default:
    @just --list

# create .venv with all development tools, and install the commit hooks
setup:
    python3 -m venv .venv
    .venv/bin/python -m pip install -e '.[dev]'
    .venv/bin/pre-commit install

# run the tests that need only pytest and hypothesis: just test tests/families -k gaussian
test *ARGS:
    python -m pytest -q -m "not needs_extra and not slow and not statistics" {{ARGS}}

# run all tests but those of Ray, or some of them: just test-all tests/stream -k redis
test-all *ARGS:
    python -m pytest -q -n 2 --ignore=tests/on_ray {{ARGS}}

# run the tests of Ray, in a network of their own
test-ray *ARGS:
    python -m tests.on_ray -q {{ARGS}}

# check style, spelling, types, import rules and import cycles; change nothing
check:
    ruff check .
    ruff format --check .
    codespell
    mypy
    lint-imports
    python .ci/cycles.py

# fix what ruff can fix
fix:
    ruff check --fix .
    ruff format .

# run everything that a change must pass, in an environment of its own
gate *ARGS:
    .ci/run {{ARGS}}

# build the documentation into build/html
docs:
    sphinx-build -E -q -n -W --keep-going -D plot_gallery=0 -c docs . build/html

# run a benchmark: just bench paper --quick; without arguments, list them
bench *ARGS:
    python -m benchmarks {{ARGS}}

# list private words, lines per package and untyped dictionaries in src
names *ARGS:
    python .ci/names.py {{ARGS}}

# print the release notes that the fragments would give; change nothing
notes VERSION="next":
    towncrier build --draft --version {{VERSION}}

# move the fragments into CHANGELOG.md for a release
release-notes VERSION:
    towncrier build --yes --version {{VERSION}}
