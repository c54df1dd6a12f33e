"""The page of settings is that of the code, and says something about every option."""

import inspect

import pytest
from docs.make_reference import PAGE, Option, meanings, options, page, table

from scstream.model import PARAMETERS
from scstream.stream import config
from scstream.stream.batcher import Batching


def test_the_page_is_that_of_the_code() -> None:
    same = PAGE.read_text(encoding="utf-8") == page()
    assert same, "the code has other settings; run python docs/make_reference.py"


def test_every_section_and_every_parameter_of_the_model_is_there() -> None:
    text = page()
    for section in config.SECTIONS:
        assert f"[{section}]" in text or f"`{section}`" in text
    for name in PARAMETERS:
        assert (f"| `{name}` |" in text) == (name != "kernel")


def test_an_option_has_type_default_and_meaning() -> None:
    found = {option.name: option for option in options(Batching)}
    assert list(found) == list(inspect.signature(Batching).parameters)
    assert found["rows"] == Option("rows", "int", 1000, "Maximum number of rows in a batch.")


def test_an_option_without_a_docstring_is_an_error() -> None:
    class Silent:
        def __init__(self, *, loud: int = 1) -> None: ...

    with pytest.raises(KeyError, match="loud"):
        options(Silent)


def test_meanings_are_inherited_and_may_span_paragraphs() -> None:
    class Above:
        """A thing.

        Parameters
        ----------
        one, two : int
            Both of
            them.

            And more.
        three : str, optional
            Other.

        Examples
        --------
        four : int
            No option.
        """

    class Below(Above):
        """Another.

        Parameters
        ----------
        three : str
            Mine.
        """

    both = ("int", "Both of them. And more.")
    assert meanings(Below) == {"one": both, "two": both, "three": ("str", "Mine.")}


def test_a_pipe_does_not_break_the_table() -> None:
    assert table([Option("a", "x | y", None, "b")]).endswith("| `a` | x \\| y |  | b |")
