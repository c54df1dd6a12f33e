"""Plots of a model and of its history; they need the extra ``plot``.

Every function takes Axes, or makes new ones, and returns them. The id of a cluster determines its
colour and marker, so a cluster looks the same in every plot.
"""

from scstream.errors import missing_extra

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise missing_extra("matplotlib", "plot") from error

from scstream.plot.animation import Frame, animate, frame
from scstream.plot.box_plot import boxes
from scstream.plot.cluster_plot import clusters
from scstream.plot.history import History
from scstream.plot.lineage_plot import lineage
from scstream.plot.novelty_plot import novelty
from scstream.plot.profile_plot import profile
from scstream.plot.share_plot import weights
from scstream.plot.style import colour_of, marker_of

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
    "profile",
    "weights",
]
