"""Pictures of the live page for the documentation: `python -m benchmarks.page_pictures`.

A drifting stream with births, deaths, splits and merges is learned for real; the page is opened in
Chromium at three moments of it, in light and in dark.
"""

from __future__ import annotations

import sys
from io import BytesIO
from itertools import count
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, expect

from scstream.serve.live import Live
from tests.page.stage import Actor, Crowd, Show, Stage, browser, play

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZE = (1400, 1000)
MOMENTS = {"early": 45, "middle": 185, "late": 300}
END = 10_000
COLOURS = "import('/page/marks.js').then(m => [...Array(20).keys()].map(m.palette().of))"

ACTORS = [
    Actor(0, END, (1.2, 2.2), (1.2, 2.2), (0.30, 0.13), 0.5, 2.0),
    Actor(0, 110, (3.4, 3.1), (2.6, 1.2), (0.26, 0.16), -0.6, 1.4),  # falls into the next one
    Actor(0, END, (2.5, 1.0), (2.5, 1.0), (0.36, 0.18), 0.2, 1.6),
    Actor(0, 190, (4.3, 1.6), (4.6, 2.4), (0.16, 0.32), 0.0, 1.0),  # leaves
    Actor(60, END, (3.9, 4.1), (3.9, 4.1), (0.19, 0.19), 0.0, 0.9),  # is born
    Actor(95, 240, (2.1, 3.6), (1.1, 3.9), (0.32, 0.15), 0.8, 1.1),
    Actor(120, 200, (1.2, 2.2), (0.4, 0.8), (0.18, 0.18), 0.0, 1.2),  # leaves the first one
    Actor(200, END, (0.4, 0.8), (0.4, 0.8), (0.18, 0.18), 0.0, 1.2),
    Actor(205, END, (4.6, 0.7), (4.6, 0.7), (0.42, 0.12), -0.3, 1.3),
    Actor(240, END, (2.4, 4.2), (2.4, 4.2), (0.22, 0.14), 0.4, 0.7),
    Actor(262, END, (3.5, 2.4), (3.5, 2.4), (0.15, 0.24), 0.5, 0.6),
]


def main(only: str = "") -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    seconds = count()
    live = Live(clock=lambda: float(next(seconds)))  # every batch is a moment of its own
    show = Show(live, names=("log latency", "log size"), half_life=12.0)
    with Stage(live) as stage, browser() as chromium:
        batches = play(ACTORS, n_rows=240, n_batches=max(MOMENTS.values()), stray=0.004)
        for number, rows in enumerate(batches, start=1):
            show.learn(rows)
            for name in [name for name, batch in MOMENTS.items() if batch == number]:
                for theme in ("light", "dark"):
                    if only in f"{name}-{theme}":
                        picture(chromium, stage.address, name=name, theme=theme)
        if only in "selected-light":
            picture(chromium, stage.address, name="selected", theme="light")
        crowd_pictures(chromium, only)


def crowd_pictures(chromium: Browser, only: str) -> None:
    """300 clusters in 384 columns, some of them named: one selected, and in groups."""
    seconds = count()
    live = Live(clock=lambda: float(next(seconds)))
    crowd = Crowd(live, n_clusters=300, n_columns=384)
    names = ["billing", "late parcels", "password", "refunds", "outage", "prices"]
    crowd.names = {7 * k + 30: name for k, name in enumerate(6 * names)}
    for _ in range(200):
        crowd.learn()
    with Stage(live) as stage:
        for name, theme in (("many", "light"), ("groups", "dark")):
            if only in f"{name}-{theme}":
                picture(chromium, stage.address, name=name, theme=theme)


def picture(chromium: Browser, address: str, *, name: str, theme: str) -> None:
    width, height = SIZE
    page = chromium.new_page(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
    )
    page.goto(address)
    page.wait_for_selector("#state[data-state='live']")
    page.wait_for_timeout(400)
    if name == "groups":
        page.fill("#level", "11")
        expect(page.locator("#level-says")).to_contain_text("resolution", timeout=60_000)
        page.wait_for_timeout(400)
    if name in ("selected", "many"):
        page.focus("#map")
        for _ in range(2):
            page.keyboard.press("ArrowRight")
        page.evaluate("document.activeElement.blur()")
        page.wait_for_timeout(100)
    path = FOLDER / f"page-{name}-{theme}.png"
    with Image.open(BytesIO(page.screenshot())) as shot:
        thrifty(shot.convert("RGB"), page.evaluate(COLOURS)).save(path, optimize=True)
    page.close()
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def thrifty(shot: Image.Image, clusters: list[str]) -> Image.Image:
    """The picture in 256 colours; those of clusters and the most frequent ones stay exact."""
    frequent = sorted(shot.getcolors(1 << 24) or [], reverse=True)[:60]
    exact = [int(colour[i : i + 2], 16) for colour in clusters for i in (1, 3, 5)]
    exact += [value for _, colour in frequent if isinstance(colour, tuple) for value in colour]
    others = shot.quantize(256 - len(exact) // 3, dither=Image.Dither.NONE).getpalette() or []
    chosen = Image.new("P", (1, 1))
    chosen.putpalette((exact + others)[: 3 * 256])
    return shot.quantize(palette=chosen, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main(*sys.argv[1:])
