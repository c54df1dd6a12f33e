"""Images of the gallery: save animations as GIF, and leave all others to sphinx-gallery.

Its own player for animations loads a style sheet from another host, which our pages do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.animation import Animation
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures that a block of an example leaves open; return the text that shows them."""
    shown, still_open = [], [plt.figure(number) for number in plt.get_fignums()]
    for value in list(block_vars["example_globals"].values()):
        if isinstance(value, Animation) and value._fig in still_open:
            path = Path(block_vars["image_path_iterator"].next()).with_suffix(".gif")
            value.save(path, writer="pillow", dpi=80)
            plt.close(value._fig)
            shown.append(figure_rst([str(path)], gallery_conf["src_dir"]))
    still: str = matplotlib_scraper(block, block_vars, gallery_conf)
    return "".join([*shown, still])
