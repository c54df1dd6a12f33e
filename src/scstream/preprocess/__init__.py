"""Preprocessing of rows before they reach the model: scale, project, select, count words.

A step is an immutable value: applying it to a block returns the next step and the changed block.
The fitted parameters of the steps are saved with the model, so a replay gives equal bits.
"""

from scstream.preprocess.steps import STEPS, Steps

__all__ = ["STEPS", "Steps"]
