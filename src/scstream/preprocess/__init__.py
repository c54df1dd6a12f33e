"""What happens to rows between their message and the model: scaled, projected, counted, saved.

A step is a frozen value: taking a block gives the next step and the block with other columns. What
steps have learned is saved with the model, and a replayed batch comes out bit for bit as before.
"""

from scstream.preprocess.steps import STEPS, Steps

__all__ = ["STEPS", "Steps"]
