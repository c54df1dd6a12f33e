"""Every public name is in the reference and has a complete docstring."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
from functools import cache
from importlib import import_module
from typing import Any

import numpydoc.validate
import pytest

from tests.docs.blocks import ROOT

API = ROOT / "docs" / "reference" / "api"
CONF = ROOT / "docs" / "conf.py"
SOURCE = ROOT / "src" / "scstream"
# Packages whose `__all__` is public as a whole.
PACKAGES = ("", "bertopic", "datasets", "distributed", "errors", "families", "metrics", "mlflow")
PACKAGES += ("plot", "river", "testing")
ENTRY = re.compile(r"^(?:\.\. data::|  ) (scstream\.[\w.]+)$", re.MULTILINE)
DOCUMENTED = [
    name for page in sorted(API.glob("*.rst")) for name in ENTRY.findall(page.read_text())
]
SECTION = re.compile(r"(?:Parameters|Attributes)\n-+\n(.*?)(?=\n\n\w[^\n]*\n---|\Z)", re.DOTALL)
NAMES = re.compile(r"^(\w[\w, ]*?)(?: :.*)?$", re.MULTILINE)
INNER = {"learned"}  # arguments that only the program itself passes
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def checks() -> tuple[set[str], set[str]]:
    conf = runpy.run_path(str(CONF))
    return conf["numpydoc_validation_checks"], conf["NAMES_HAVE"]


def found(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def is_abstract(thing: Any) -> bool:
    """Whether the class cannot be instantiated: a protocol, or a class with abstract methods."""
    return inspect.isclass(thing) and (inspect.isabstract(thing) or hasattr(thing, "_is_protocol"))


def undescribed(thing: type[Any]) -> set[str]:
    """Arguments of a class that neither its docstring nor those of its bases describe."""
    described: set[str] = set()
    for each in thing.__mro__:
        for section in SECTION.findall(inspect.cleandoc(each.__doc__ or "")):
            for line in NAMES.findall(section):
                described |= set(line.split(", "))
    return {
        argument.name
        for argument in inspect.signature(thing).parameters.values()
        if argument.kind is not argument.VAR_KEYWORD
        and not argument.name.startswith("_")
        and argument.name not in described | INNER
    }


def faults(name: str) -> list[str]:
    thing = found(name)
    if not (inspect.isclass(thing) or callable(thing)):
        return []  # a constant: the page describes it
    always, besides = checks()
    if is_abstract(thing):
        besides = set()
    if inspect.isclass(thing):
        besides = besides - {"PR01"}
    said = numpydoc.validate.validate(name)["errors"]
    wrong = [f"{code} {text}" for code, text in said if code in always | besides]
    if inspect.isclass(thing) and not is_abstract(thing) and not issubclass(thing, Exception):
        wrong += [f"the argument {argument} is not described" for argument in undescribed(thing)]
    return wrong


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_name_is_documented(name: str) -> None:
    wrong = faults(name)
    assert not wrong, f"{name}: {'; '.join(wrong)}"


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_that_a_package_exports_is_in_the_reference(package: str) -> None:
    module = import_module(f"scstream.{package}".rstrip("."))
    exported = {f"{module.__name__}.{name}" for name in module.__all__ if name != "__version__"}
    assert exported <= set(DOCUMENTED), sorted(exported - set(DOCUMENTED))


def test_nothing_is_listed_twice() -> None:
    assert len(DOCUMENTED) == len(set(DOCUMENTED))


def defined(tree: ast.AST, place: str) -> list[tuple[str, Definition]]:
    """Public classes, functions and methods of a module, by name; not nested functions."""
    out: list[tuple[str, Definition]] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition) and not node.name.startswith("_"):
            out.append((f"{place}.{node.name}", node))
            if isinstance(node, ast.ClassDef):
                out += defined(node, f"{place}.{node.name}")
        elif isinstance(node, ast.If | ast.Try):
            out += defined(node, place)
    return out


def bare(trees: dict[str, ast.Module]) -> list[str]:
    """Public names without a docstring; a method may have it where a class above declares it."""
    classes = {
        node.name: node
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    missing = [place for place, tree in trees.items() if ast.get_docstring(tree) is None]
    for place, tree in trees.items():
        for name, node in defined(tree, place):
            if ast.get_docstring(node) is None and not _described_above(name, node, classes):
                missing.append(name)
    return missing


def _described_above(name: str, node: Definition, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether a base class documents the method, or it is a setter or an overload."""
    marks = {ast.unparse(mark).split(".")[-1] for mark in node.decorator_list}
    if marks & {"setter", "overload"}:
        return True
    owner = classes.get(name.split(".")[-2])
    above = (
        [ast.unparse(base).split("[")[0].split(".")[-1] for base in owner.bases] if owner else []
    )
    while above:
        base = classes.get(above.pop())
        if base is None:
            continue
        own = [
            each for each in base.body if isinstance(each, Definition) and each.name == node.name
        ]
        if any(ast.get_docstring(each) for each in own):
            return True
        above += [ast.unparse(each).split("[")[0].split(".")[-1] for each in base.bases]
    return False


def test_every_public_name_of_the_package_has_a_docstring() -> None:
    files = {str(file.relative_to(SOURCE.parent)): file for file in sorted(SOURCE.rglob("*.py"))}
    trees = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in files.items()}
    assert sum(len(defined(tree, name)) for name, tree in trees.items()) > 500
    assert bare(trees) == []


def test_names_without_a_docstring_are_noticed() -> None:
    code = '''
"""Module."""
class A:
    """A."""
    def described(self): "It is."
    def bare(self): ...
    def _private(self): ...
class B(A):
    """B."""
    def described(self): ...
    def bare(self): ...
def f():
    def inner(): ...
'''
    assert bare({"m": ast.parse(code)}) == ["m.A.bare", "m.B.bare", "m.f"]
    assert bare({"n": ast.parse("x = 1")}) == ["n"]
