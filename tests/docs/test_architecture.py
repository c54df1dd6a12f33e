"""The architecture page matches the layers that import-linter checks."""

from docs import make_architecture
from tests.docs.blocks import ROOT


def test_the_table_matches_the_layers() -> None:
    same = make_architecture.page() == make_architecture.PAGE.read_text(encoding="utf-8")
    assert same, "the layers have changed; run python docs/make_architecture.py"


def test_the_diagram_matches_the_layers() -> None:
    same = make_architecture.diagram() == make_architecture.DIAGRAM.read_text(encoding="utf-8")
    assert same, "the layers have changed; run python docs/make_architecture.py"


def test_every_package_is_listed() -> None:
    root = ROOT / "src" / "scstream"
    packages = {place.name for place in root.iterdir() if (place / "__init__.py").exists()}
    packages |= {file.stem for file in root.glob("*.py")} - {"__init__"}
    listed = [package for layer in make_architecture.layers() for package in layer]
    assert sorted(listed) == sorted(packages)
