"""The loop over a video: the next frame is decoded while the model learns this one."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from benchmarks.video.frames import Array, Labels, Video, rows_of

Segment = Callable[[Array], Labels]  # learn the rows of a frame, then name the segment of each


@dataclass
class Run:
    """Labels of every frame, and seconds: of every frame apart, and of the whole loop."""

    labels: list[Labels] = field(default_factory=list)  # (height, width) each
    decode: list[float] = field(default_factory=list)
    model: list[float] = field(default_factory=list)
    wall: float = 0.0
    cpu: float = 0.0

    @property
    def frames_per_second(self) -> float:
        """Of the whole loop: decoding, and the first frame, included."""
        return len(self.model) / self.wall


def run(segment: Segment, video: Video, position: float = 1.0) -> Run:
    """Segment a video frame by frame."""

    def decode(number: int) -> tuple[tuple[int, ...], Array, float]:
        started = time.perf_counter()
        frame = video.frame(number)
        rows = rows_of(frame, position)
        return frame.shape[:2], rows, time.perf_counter() - started

    out = Run()
    wall, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(decode, 0)
        for number in range(video.n_frames):
            shape, rows, seconds = coming.result()
            if number + 1 < video.n_frames:
                coming = ahead.submit(decode, number + 1)
            started = time.perf_counter()
            labels = segment(rows)
            out.model.append(time.perf_counter() - started)
            out.decode.append(seconds)
            out.labels.append(labels.astype(np.int32).reshape(shape))
    out.wall, out.cpu = time.perf_counter() - wall, time.process_time() - cpu
    return out
