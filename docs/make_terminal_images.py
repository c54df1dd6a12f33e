"""Draw the terminal images in docs/images: `python -m docs.make_terminal_images`.

The pipeline learns clusters that are born, drift and die, on a clock that goes by hand, so that the
picture is the same every time. A browser (Chromium of the system) turns the drawing into an image.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from scstream.cli import inspect_text, render
from scstream.cli import top_frame as frames
from scstream.cli.load import load_model
from scstream.cli.summary import CheckpointMonitor, History
from scstream.datasets import births_and_deaths
from scstream.stream.clock import ManualClock
from scstream.stream.config import build
from scstream.stream.store import FolderStore

IMAGES = Path(__file__).with_name("images")
START = 1_790_000_000.0  # 2026-09-21, a Monday
DARK = TerminalTheme(
    (16, 20, 26),
    (214, 220, 228),
    [(16, 20, 26)] + [(128, 128, 128)] * 6 + [(214, 220, 228)],
    [(128, 128, 128)] * 7 + [(255, 255, 255)],
)
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #10141a; }}
pre {{ font: 15px/1.32 "DejaVu Sans Mono", monospace; margin: 14px 18px; color: #d6dce4; }}
</style>{code}"""
CODE = "<pre>{code}</pre>"


def learned(folder: Path, *, n_batches: int = 90, seed: int = 3) -> Path:
    """Run a pipeline with a checkpoint after every batch; return the folder of checkpoints."""
    stream = births_and_deaths(
        n_clusters=9, n_features=4, n_batches=n_batches, batch_size=2000, random_state=seed
    )
    rng = np.random.default_rng(seed)
    with (folder / "rows.csv").open("w") as file:
        file.write("speed,load,heat,noise\n")
        for number, batch in enumerate(stream):
            n_odd = 6 + 3 * int(rng.integers(4)) + 60 * (number % 23 == 20)
            far = np.exp(rng.uniform(4, 9, (n_odd, 1))) * rng.normal(size=(n_odd, 4))
            X = np.vstack([batch.X[n_odd:], far])  # rows that belong to no cluster
            file.writelines(",".join(f"{x:.4f}" for x in row) + "\n" for row in X)
    settings = {
        "job": "turbines",
        "source": {"kind": "file", "path": str(folder / "rows.csv")},
        "batch": {"rows": 2000},
        "checkpoint": {"batches": 1, "newest": n_batches},
        "threads": False,
    }
    clock = ManualClock(START)
    pipeline = build(settings, store=FolderStore(folder / "turbines.state"))
    pipeline.clock = clock
    pipeline.on_batch = lambda source_batch, learned: clock.sleep(9.0 + 2.0 * rng.random())
    pipeline.run()
    return folder / "turbines.state"


def picture(draw: Callable[[Console], None], *, width: int, height: int) -> bytes:
    """Return the output on a terminal of this size as PNG."""
    console = Console(
        file=io.StringIO(), record=True, width=width, height=height, force_terminal=True,
        color_system="truecolor", highlight=False, legacy_windows=False,
    )  # fmt: skip
    draw(console)
    html = console.export_html(theme=DARK, inline_styles=True, code_format=CODE)
    with tempfile.TemporaryDirectory() as folder:
        page, image = Path(folder) / "page.html", Path(folder) / "image.png"
        page.write_text(PAGE.format(code=html), encoding="utf-8")
        lines = console.export_text(clear=True).count("\n") or html.count("\n")
        browser = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
        size = f"{int(width * 9.03) + 38},{int((lines + 1) * 19.8) + 10}"
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--window-size={size}", f"--screenshot={image}", str(page)],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        return image.read_bytes()


def top(state: Path, *, width: int, height: int) -> Callable[[Console], None]:
    """Return a function that draws the view of a pipeline."""
    history, watched = History(), CheckpointMonitor(str(state))
    for summary in watched.past():
        history.add(summary)

    def draw(console: Console) -> None:
        now = history.newest.at + 3.0
        view = frames.View(state.name, now=now, width=width, height=height)
        for line in frames.frame(history, view):
            console.print(line, soft_wrap=True)

    return draw


def inspect(state: Path) -> Callable[[Console], None]:
    """Return a function that draws a model."""

    def draw(console: Console) -> None:
        loaded = replace(load_model(str(state)), place=state.name)
        clock = SimpleNamespace(time=lambda: loaded.version.at + 3.0)
        with (
            patch.object(render, "console", lambda: console),
            patch.object(inspect_text, "time", clock),
        ):
            inspect_text.print_model(loaded, max_n=8)

    return draw


def main(folder: Path) -> None:
    """Write the images."""
    folder.mkdir(exist_ok=True)
    os.environ["TZ"] = "UTC"
    with tempfile.TemporaryDirectory() as scratch, patch.object(render.sys, "stdout", _Utf8()):
        state = learned(Path(scratch))
        images = {
            "top": (top(state, width=120, height=32), 120, 32),
            "inspect": (inspect(state), 90, 60),
        }
        for name, (draw, width, height) in images.items():
            (folder / f"{name}.png").write_bytes(picture(draw, width=width, height=height))


class _Utf8(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
