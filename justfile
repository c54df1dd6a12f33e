# `just` lists the targets. All but `setup` and `gate` use the tools of the active environment.

export OPENBLAS_NUM_THREADS := "1"
export OMP_NUM_THREADS := "1"

# list the targets
default:
    @just --list

# create .venv with everything a contributor needs, and install the commit hooks
setup:
    python3 -m venv .venv
    .venv/bin/python -m pip install -e '.[dev]'
    .venv/bin/pre-commit install

# run what every change must pass, from a clean environment
gate *ARGS:
    .ci/run {{ARGS}}

# run the tests, or some of them: just test tests/families -k gaussian
test *ARGS:
    python -m pytest -q {{ARGS}}

# run the tests that need less than ten seconds each, on two cores
quick *ARGS:
    python -m pytest -q -n 2 -m "not slow" {{ARGS}}

# check style, spelling, types and import rules; change nothing
check:
    ruff check .
    ruff format --check .
    codespell
    mypy
    lint-imports

# mend what ruff can mend
fix:
    ruff check --fix .
    ruff format .

# print the release notes that the fragments would give; change nothing
notes VERSION="next":
    towncrier build --draft --version {{VERSION}}

# fold the fragments into CHANGELOG.md for a release
release-notes VERSION:
    towncrier build --yes --version {{VERSION}}
