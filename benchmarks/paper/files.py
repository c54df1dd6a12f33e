"""The real files and the fixed recipes of streams, as they are stored; each is checked once.

They are not part of the project. Files are looked for in ``SCSTREAM_DATA``, recipes in
``SCSTREAM_STREAMS``; by default ``shared/data`` and ``shared/streams`` beside the project.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import os
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

_SHARED = Path(__file__).parents[3] / "shared"
_SHA256 = {
    "20news_bydate.jsonl.xz": "370842a1711766f9023e2ba1543b334de1dc6e6a6de08dae055c394cb3bec3fa",
    "20news_counts.npz": "496e1d4e0e68deb22508ad8cf6aca9cdc24b7859cfeab923305ff3033bda31e6",
    "covtype.npz": "9844728cb34f6c94596415335829f12200efe7a3c4fe7610d695414675d9abe3",
    "davis_kite-surf_480p.tar": "6202142fae7a2132e06ce8e3444298104268f39e91a8a71d630fcdd71f61bce6",
    "elec2.csv.gz": "b4f3aff77cf29cb831b583768edb69dc09af4863a4fe234373279c95f610aacc",
    "flights_2001h1.npz": "6c6446f6bc144ae761ab7acebd7effc8e947904630938985dce25216d123f600",
    "kddcup.data_10_percent.gz": "8045aca0d84e70e622d1148d7df782496f6333bf6eb979a1b0837c42a9fd9561",
    "keystroke.npz": "617224959190bd473d9340856f548f6351559089e3548acee14445f496508632",
    "minilm_20news_bodies_bydate.npz": (
        "61d40b5c8b56d8e096dc3f3b13966cd8dce620ce7b88720198cda3507795ef0d"
    ),
    "minilm_clinc150.npz": "817826439b8276df4667c18320b9d84f1fb04f2860915c7d50b4e80ebd64bb16",
    "minilm_loghub.npz": "7decfd701cc303f5dc624f0b1116016e35b0842d892e18e28a143a0539b846a6",
    "minilm_news_t.npz": "d093372c98de58a49e502af933daf04adc90020838c849a4a9d1313dc04049f4",
    "minilm_tweets_t.npz": "218937911fbafcb5c9d32426b3a77f885b24af13964f94d88df8c2e5ae660dfa",
    "mstream_News-T.jsonl.gz": "576d89f52c77fd4444670bac054406734ef0032557d07cc21298fdf8f7b6529d",
    "mstream_Tweets-T.jsonl.gz": "fb7945e181f0020aa150a60dc27098cce0ba076f9e79dc37ec38b5616abd2c71",
    "nab.tar.xz": "7e1e79cd2ae838ae2a577d3d6928d4ea7657aa5f40e2251f30eb8dcde0995db9",
    "noaa_weather.csv.gz": "fa2d28112f3e973b730f0b5f15a208d1d469001e0ae3b2fc2ef968040805d943",
    "outdoor.npz": "51c0fb012c7c7a46bcf13f234122a1f25654ab2a2cd5395072c85a4e212ae48c",
    "shuttle.npz": "fd967d56fcbfd3ca17be109cc4c4a0ce2e1cb61656d0ca388b842d768d665dfe",
    "tiny_imagenet100_feat.npz": "09f8e23b0729c399666f4c76c11acdf02fc0cf7737b9bfa9c04ed4faede0ed57",
}

Array = npt.NDArray[Any]


class Missing(FileNotFoundError):
    """A file that is not part of the project is not there; the message says where to put it."""


def recipe(name: str) -> ModuleType:
    """The module of a fixed stream: its ``generate`` returns rows, labels and the truth."""
    folder = Path(os.environ.get("SCSTREAM_STREAMS", _SHARED / "streams"))
    path = folder / f"{name}.py"
    if not path.exists():
        raise Missing(
            f"No {path.name} in {folder}: set SCSTREAM_STREAMS to the folder that has it."
        )
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def stored(name: str) -> Path:
    """Path of a file whose checksum is right."""
    folder = Path(os.environ.get("SCSTREAM_DATA", _SHARED / "data"))
    path = folder / name
    if not path.exists():
        raise Missing(f"No {name} in {folder}: set SCSTREAM_DATA to where it is.")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != _SHA256[name]:
        raise ValueError(f"{path} is not the file that was measured: its sha256 is {found}.")
    return path


def arrays(name: str) -> tuple[Array, Array]:
    """Rows and labels of an .npz file."""
    with np.load(stored(f"{name}.npz")) as file:
        return file["X"], file["y"]


def table(name: str) -> tuple[Array, Array]:
    """Rows and labels of a table whose last column is the class."""
    with gzip.open(stored(f"{name}.csv.gz"), "rt") as file:
        cells = np.loadtxt(file, delimiter=",", skiprows=1)
    return cells[:, :-1], cells[:, -1]


def kdd() -> tuple[Array, Array]:
    """The 38 numbers of each connection, and its label; the three symbols are left out."""
    with gzip.open(stored("kddcup.data_10_percent.gz"), "rt") as file:
        cells = [line.rstrip(".\n").split(",") for line in file]
    X = np.array([[*row[:1], *row[4:41]] for row in cells], dtype=np.float64)
    return X, np.array([row[41] for row in cells])


def newsgroups(tokens: str) -> tuple[sp.csr_array, Array, Array]:
    """Counts of the 1000 commonest words, group and time of posting of each article."""
    with np.load(stored("20news_counts.npz")) as file:
        parts = [file[f"{tokens}_{part}"] for part in ("data", "indices", "indptr")]
        y, date = file["y"], file["date"]
    counts = sp.csr_array((parts[0].astype(np.float64), *parts[1:]), shape=(len(y), 1000))
    return counts, y, date


def short_text(name: str) -> tuple[list[list[str]], Array]:
    """Words and cluster of each short text, in the order of the stream."""
    with gzip.open(stored(f"mstream_{name}.jsonl.gz"), "rt") as file:
        texts = [json.loads(line) for line in file]
    return [t["textCleaned"].split() for t in texts], np.array([t["clusterNo"] for t in texts])
