"""Pictures of a model and of its history; extra ``plot``.

Every function takes Axes and returns them, or makes its own. Colour and marker belong to the id of
a cluster, so that a cluster looks the same in every picture of every batch.
"""

from scstream.errors import missing_extra

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise missing_extra("matplotlib", "plot") from error

from scstream.plot.bands import weights
from scstream.plot.lives import lineage
from scstream.plot.looks import colour_of, marker_of
from scstream.plot.movie import Frame, animate, frame
from scstream.plot.quantiles import boxes
from scstream.plot.record import History
from scstream.plot.scatter import clusters
from scstream.plot.surprises import novelty

__all__ = [
    "Frame",
    "History",
    "animate",
    "boxes",
    "clusters",
    "colour_of",
    "frame",
    "lineage",
    "marker_of",
    "novelty",
    "weights",
]
