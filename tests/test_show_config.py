"""`show_config` tells the truth about the kernels in use, and says why."""

import os
import subprocess
import sys

import pytest

import scstream
from scstream.kernels import choose_kernels
from scstream.machine import usable_cores

TABLE = "import scstream; scstream.show_config()"
NUMPY = choose_kernels().name == "numpy"


def printed_with(code: str = TABLE, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_it_prints_and_returns_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert scstream.show_config() is None
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["scstream", scstream.__version__]
    assert any(line.startswith("BLAS") for line in lines)


def test_it_returns_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    config = scstream.show_config(as_dict=True)
    assert capsys.readouterr().out == ""
    assert config["kernels"] == ("numpy" if NUMPY else "native")
    assert config["cores"] == usable_cores() >= 1
    assert all(blas["threads"] >= 1 for blas in config["blas"])


def test_the_instruction_set_is_one_of_those_available() -> None:
    if NUMPY:
        pytest.skip("the numpy kernels are in use")
    config = scstream.show_config(as_dict=True)
    assert config["isa"] in config["isas"]
    assert config["isas"][-1] == "portable"


def test_numpy_kernels_have_no_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCSTREAM_KERNELS", "numpy")
    config = scstream.show_config(as_dict=True)
    assert config["kernels"] == "numpy"
    assert config["isa"] is None
    assert config["isas"] == []


def test_it_says_who_switched_the_compiled_kernels_off() -> None:
    assert "numpy (SCSTREAM_KERNELS is numpy)" in printed_with(SCSTREAM_KERNELS="numpy")


def test_it_says_that_there_are_no_compiled_kernels() -> None:
    absent = f"import sys; sys.modules['scstream._native'] = None; {TABLE}"
    output = printed_with(absent, SCSTREAM_KERNELS="auto")
    assert "numpy (this installation has no compiled kernels)" in output


def test_the_portable_kernels_can_be_asked_for() -> None:
    if NUMPY:
        pytest.skip("the numpy kernels are in use")
    assert "portable (of " in printed_with(SCSTREAM_ISA="portable")
