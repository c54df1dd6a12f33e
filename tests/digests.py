"""Values as something that can be compared: equal means equal bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np


def digest(value: Any) -> Any:
    """Everything in a value, arrays by their bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {name: digest(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [digest(entry) for entry in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: digest(getattr(value, name)) for name in value.__dataclass_fields__}
    return repr(value)
