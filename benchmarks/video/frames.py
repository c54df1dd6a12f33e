"""The kite-surf sequence of DAVIS 2016: frames, masks of the surfer, and rows of a frame.

The file is not part of the project. It is looked for in the folder that ``SCSTREAM_DATA`` names,
by default ``shared/data`` beside the project.
"""

from __future__ import annotations

import io
import tarfile
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from benchmarks.paper.files import stored

Pixels = npt.NDArray[np.uint8]  # (height, width, 3)
Mask = npt.NDArray[np.bool_]  # (height, width)
Array = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]

_FILE = "davis_kite-surf_480p.tar"


class Video(Protocol):
    """Frames by number, and where in each of them the surfer is."""

    n_frames: int

    def frame(self, number: int) -> Pixels: ...

    def mask(self, number: int) -> Mask: ...


class KiteSurf:
    """50 frames of 480 x 854 pixels; `every` leaves out pixels, for a quick look."""

    def __init__(self, n_frames: int = 50, *, every: int = 1) -> None:
        self.n_frames, self._every = n_frames, every
        with tarfile.open(fileobj=io.BytesIO(stored(_FILE).read_bytes())) as tar:
            self._files = {name: _content(tar, name) for name in tar.getnames()}

    def frame(self, number: int) -> Pixels:
        """Decode the pixels of a frame."""
        return self._image(f"JPEGImages/{number:05d}.jpg")

    def mask(self, number: int) -> Mask:
        """The pixels of the surfer, with board and lines, as the people of DAVIS drew them."""
        return np.greater(self._image(f"Annotations/{number:05d}.png"), 0)

    def _image(self, name: str) -> Pixels:
        with Image.open(io.BytesIO(self._files[name])) as image:
            return np.asarray(image, dtype=np.uint8)[:: self._every, :: self._every]


def rows_of(frame: Pixels, position: float = 1.0) -> Array:  # (height * width, 5)
    """Red, green, blue, row and column of every pixel; `position` scales the last two."""
    height, width = frame.shape[:2]
    rows = np.empty((height, width, 5))
    rows[..., :3] = frame
    rows[..., 3] = position * np.arange(height)[:, None]
    rows[..., 4] = position * np.arange(width)
    return rows.reshape(-1, 5)


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    return b"" if file is None else file.read()
