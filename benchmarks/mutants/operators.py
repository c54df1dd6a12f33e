"""Mutants of a module: its source with one expression or statement changed."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_CALLS = {
    "maximum": "minimum",
    "minimum": "maximum",
    "argmax": "argmin",
    "argmin": "argmax",
    "max": "min",
    "min": "max",
    "any": "all",
    "all": "any",
    "logaddexp": "maximum",
    "log1p": "log",
    "sum": "max",
}
_LEFT_OUT = ("annotation", "returns", "decorator_list", "slice", "defaults", "kw_defaults")
_NOT_NUMBERS = ("axis", "initial", "maxsize", "dtype", "default")  # keywords whose values stay
_DESCRIPTIONS = ("compiled_by", "hyperparameters")  # functions without a computation


@dataclass(frozen=True)
class Mutant:
    """One change of one module: the first such expression or statement of a function."""

    module: str
    function: str
    before: str
    after: str

    @property
    def key(self) -> str:
        """The name of the mutant in results and on the command line."""
        place = f"{self.module.removeprefix('scstream.')}.{self.function}"
        return f"{place}: {self.before} -> {self.after}"

    @property
    def rank(self) -> str:
        """A random order that does not change with other parts of the module."""
        return hashlib.sha256(self.key.encode()).hexdigest()

    def source(self) -> str:
        """The text of the changed module."""
        tree = _tree(self.module)
        for function, node in _nodes(tree, ()):
            if function == self.function and _text(node) == self.before:
                is_expression = isinstance(node, ast.expr)
                parsed = ast.parse(self.after, mode="eval" if is_expression else "exec").body
                instead = parsed if isinstance(parsed, ast.AST) else parsed[0]
                return ast.unparse(ast.fix_missing_locations(_Replace(node, instead).visit(tree)))
        raise LookupError(f"{self.module}.{self.function} has no {self.before!r}")


class _Replace(ast.NodeTransformer):
    def __init__(self, node: ast.AST, instead: ast.AST) -> None:
        self._node, self._instead = node, instead

    def visit(self, node: ast.AST) -> ast.AST:
        return self._instead if node is self._node else self.generic_visit(node)


def all_mutants(module: str) -> list[Mutant]:
    """All mutants of a module; of changes that look the same in one function, the first."""
    found = [
        Mutant(module, function, _text(node), _text(instead))
        for function, node in _nodes(_tree(module), ())
        if function
        for instead in _replacements(node)
    ]
    return list(dict.fromkeys(found))


def _tree(module: str) -> ast.Module:
    return ast.parse(SOURCES.joinpath(*module.split(".")).with_suffix(".py").read_text())


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _nodes(node: ast.AST, inside: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    """The nodes of a tree with the functions they are in; no annotations, messages, indices."""
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return
    if isinstance(node, ast.AnnAssign):  # a field and its default
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        if node.name in _DESCRIPTIONS:
            return
        inside = (*inside, node.name)
    elif isinstance(node, ast.expr | ast.stmt):
        yield ".".join(inside), node
    for name, value in ast.iter_fields(node):
        if name in _LEFT_OUT or (isinstance(node, ast.keyword) and node.arg in _NOT_NUMBERS):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child, inside)


def _replacements(node: ast.AST) -> list[ast.AST]:  # noqa: PLR0911
    """What may stand in the place of a node."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            swapped = ast.BinOp(left, _BINARY[type(op)](), right)
            return [swapped, left] if isinstance(op, ast.Add | ast.Sub) else [swapped]
        case ast.Compare(left, [op], rest) if type(op) in _NEGATED:
            return [ast.Compare(left, [_NEGATED[type(op)]()], rest)]
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            return [ast.BoolOp(other, values), values[0]]
        case ast.UnaryOp(ast.USub() | ast.Not() | ast.Invert(), operand):
            return [operand]
        case ast.Constant(value) if type(value) in (int, float):
            return [ast.Constant(value + 1 if isinstance(value, int) else (2.0 * value or 1.0))]
        case ast.Call(ast.Attribute(of, name), arguments, keywords) if name in _CALLS:
            return [ast.Call(ast.Attribute(of, _CALLS[name]), arguments, keywords)]
        case ast.Call(ast.Name(name), arguments, keywords) if name in _CALLS:
            return [ast.Call(ast.Name(_CALLS[name]), arguments, keywords)]
        case ast.AugAssign() | ast.Expr(ast.Call()):
            return [ast.Pass()]
        case ast.IfExp(test, body, orelse):
            return [ast.IfExp(test, orelse, body)]
    return []
