"""The algorithm exactly as the paper prints it, with the corrected formulas.

It is for ablations: `scstream.core.paper` is the system that made the figures of the paper.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from scstream.core import paper
from scstream.core.cluster_edits import EditRules

RULES = replace(
    paper.RULES,
    subcluster_ratio=False,
    edits=EditRules(keep_heavier_id=False, bisect_past=False),
)
TEXT = paper.PaperRules(RULES, renew=False, draw_sublabels=False, patience=50)

step = partial(paper.step, rules=TEXT)
predictor = paper.predictor
shapes = paper.shapes
