"""The map of the package is the one that the gate enforces."""

from docs import make_architecture
from tests.docs.blocks import ROOT


def test_the_table_is_that_of_the_rules() -> None:
    same = make_architecture.page() == make_architecture.PAGE.read_text(encoding="utf-8")
    assert same, "the layers are others now; run python docs/make_architecture.py"


def test_the_picture_is_that_of_the_rules() -> None:
    same = make_architecture.diagram() == make_architecture.DIAGRAM.read_text(encoding="utf-8")
    assert same, "the layers are others now; run python docs/make_architecture.py"


def test_every_room_of_the_package_is_there() -> None:
    package = ROOT / "src" / "scstream"
    rooms = {place.name for place in package.iterdir() if (place / "__init__.py").exists()}
    rooms |= {file.stem for file in package.glob("*.py")} - {"__init__"}
    listed = [room for layer in make_architecture.layers() for room in layer]
    assert sorted(listed) == sorted(rooms)
