"""`show_config` tells the truth about the kernels in use, and says why."""

import os
import subprocess
import sys

import pytest

import scstream
from scstream.kernels import kernels_in_use
from scstream.kernels.native import load_native
from scstream.machine import usable_cores

TABLE = "import scstream; scstream.show_config()"


def printed_with(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TABLE],
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
    assert config["kernels"] == ("numpy" if kernels_in_use() == "numpy" else "native")
    assert config["cores"] == usable_cores() >= 1
    assert all(blas["threads"] >= 1 for blas in config["blas"])


def test_the_instruction_set_is_one_of_those_available() -> None:
    if kernels_in_use() == "numpy":
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
    if load_native() is None:
        pytest.skip("there are no compiled kernels to switch off")
    assert "numpy (SCSTREAM_KERNELS is numpy)" in printed_with(SCSTREAM_KERNELS="numpy")


def test_it_says_that_there_are_no_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCSTREAM_KERNELS", raising=False)
    monkeypatch.setitem(sys.modules, "scstream._native", None)
    monkeypatch.delattr(scstream, "_native", raising=False)
    load_native.cache_clear()
    try:
        config = scstream.show_config(as_dict=True)
    finally:
        load_native.cache_clear()
    assert config["why"] == "this installation has no compiled kernels"


def test_the_portable_kernels_can_be_asked_for() -> None:
    if kernels_in_use() == "numpy":
        pytest.skip("the numpy kernels are in use")
    assert "portable (of " in printed_with(SCSTREAM_ISA="portable")
