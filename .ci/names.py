"""Report private words, lines per package and untyped dictionaries in src/scstream.

    python .ci/names.py                  # everything
    python .ci/names.py stream cli       # only these packages or modules
    python .ci/names.py --totals         # counts only
    python .ci/names.py --prose          # also comments, docstrings and strings

This is a report, not a check: it always exits with 0.
"""

import argparse
import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SOURCE = PROJECT / "src" / "scstream"

# old word -> new word. These words have other, ordinary uses as a part of a longer identifier
# (`last_seen`, `half_life`, `PlanVersion`), so only whole identifiers count.
WHOLE = {
    # core
    "whole": "cluster_stats",
    "Plan": "AssignmentParams",
    "names": "label_ids, or whose names: feature_names, column_names",
    "arrive": "initial_assignment",
    "rest": "unassigned_weight",
    "seen": "last_seen",
    "listen": "collect_evidence",
    "but": "replace",
    "most": "max_n",
    "plain": "to_dict",
    # families
    "location": "mean",
    "spread": "std",
    "draw": "sample_posterior",
    "predictive": "predictive_params",
    "expected": "posterior_mean_params",
    "candidates": "prior_grid",
    "cut": "bisect",
    "log_gain": "log_leave_one_out",
    # stream
    "Place": "Offset",
    "Mark": "Offset",
    "Cut": "BatchBoundary",
    "Pace": "CheckpointPolicy",
    "Work": "PendingCommit",
    "Ahead": "Prefetching",
    "Behind": "Async",
    "Straight": "Sync",
    "Inline": "Sync",
    "dead": "dead_letters",
    "Reading": "ModelVersion",
    "Link": "Connection",
    # serve, cli, Ray
    "ask": "predict",
    "question": "request",
    "Owned": "LocalModel",
    "Following": "Poller",
    "Visit": "RequestContext",
    "says": "detail",
    "Lives": "Lineage",
    "opened": "load",
    "hire": "start",
}

# These words are private: they also count as a part of a longer identifier or of a file name.
PARTS = {
    # core
    "halves": "subclusters",
    "tally": "AssignmentStats",
    "draft": "Transition",
    "welcome": "propose_births",
    "weigh": "accumulate_evidence",
    "follow_pairs": "merge_candidates",
    "let_go": "prune",
    "bury": "remove",
    "burial": "removal",
    "buried": "removed",
    "lasting": "net_events",
    "surgery": "cluster_edits",
    "fading": "forgetting",
    "remember": "unfaded",
    "silent": "inactive",
    "heard": "active",
    "stride": "batch_interval",
    "jitter": "velocity_noise",
    "settle": "report_map",
    "asked": "sampled",
    "stretch": "RowRange",
    "equipped": "with_kernels",
    # families
    "vague": "weak_prior",
    "moves_rigidly": "supports_translation",
    "twin": "native implementation",
    "twins": "native implementations",
    # stream
    "lane": "partition",
    "lanes": "partitions",
    "parcel": "SourceBatch",
    "parcels": "SourceBatch",
    "ledger": "CheckpointLog",
    "witness": "on_batch",
    "announce": "emit",
    "nowhere": "NullSink",
    "door": "IngestServer",
    # serve, cli, Ray
    "verdict": "prediction",
    "verdicts": "predictions",
    "lesson": "UpdateResult",
    "refusal": "ApiError",
    "refusals": "ApiError",
    "household": "rate-limit key",
    "chronicle": "History",
    "moment": "Summary",
    "moments": "summaries",
    "veil": "SecretRedactor",
    "onlooker": "exporter",
    "onlookers": "exporters",
    "portrait": "render",
    "sketch": "render",
    "strokes": "render",
    "crew": "WorkerPool",
    "muster": "refresh",
    "told": "PlanVersion",
    "held": "LoadedShard",
}

# Metaphors that the table does not list; counted apart.
METAPHORS = {
    "answers": "responses or predictions",
    "asking": "requesting or predicting",
    "beside": "parallel",
    "born": "created",
    "doomed": "to remove",
    "empties": "removed",
    "hand": "pass or give",
    "hears": "receives",
    "kin": "related",
    "knock": "request",
    "mend": "repair",
    "room": "package or space",
    "seat": "slot",
    "seats": "slots",
    "standing": "current",
    "story": "",
    "tells": "reports",
}

# Names that other libraries give, and ordinary uses: identifier -> files ("" means all files).
ALLOWED: dict[str, tuple[str, ...]] = {
    "listen": ("serve/", "cli/", "stream/connectors/"),  # of a socket
    "strides": ("",),  # of numpy
    "as_strided": ("",),
    "draw": ("plot/", "testing/"),  # of matplotlib and hypothesis
    "held_out": ("",),  # rows that are scored, not learned
    "Moments": ("preprocess/",),  # sums of powers, the word of statistics
    "moments": ("preprocess/",),
    "_sparse_moments": ("preprocess/",),
    "_FOURTH_MOMENT": ("testing/",),
}


def words_of(name: str) -> str:
    """Return an identifier in snake case between `_`: ModelVersion -> _model_version_."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return f"_{snake.strip('_')}_"


def old_word(name: str, parts: dict[str, str], whole: dict[str, str]) -> str | None:
    """Return the old word that an identifier is or contains, or None."""
    if name in whole or name.strip("_") in whole:
        return name if name in whole else name.strip("_")
    words = words_of(name)
    return next((part for part in parts if f"_{part}_" in words), None)


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every identifier of a module with its line: uses, definitions, arguments, imports."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                yield name, line
            case ast.Attribute(attr=name):
                yield name, node.end_lineno or line
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, line
            case ast.ClassDef(name=name):
                yield name, line
            case ast.keyword(arg=str(name)):
                yield name, line
            case ast.alias(name=name, asname=other):
                yield from ((part, line) for part in name.split("."))
                if other:
                    yield other, line
            case ast.ImportFrom(module=str(name)):
                yield from ((part, line) for part in name.split("."))


def prose(text: str) -> Iterator[tuple[str, int]]:
    """Yield the comments and strings of a module, line by line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING}:
            for offset, line in enumerate(token.string.splitlines()):
                yield line, token.start[0] + offset


def is_allowed(name: str, file: str) -> bool:
    """Return True if this identifier is ordinary in this file."""
    return any(file.startswith(place) for place in ALLOWED.get(name, ()))


def find(files: list[Path], parts: dict[str, str], whole: dict[str, str]) -> dict[str, list[str]]:
    """Return places `file:line identifier` by old word."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in files:
        file = path.relative_to(SOURCE).as_posix()
        names = [(part, 0) for part in Path(file).with_suffix("").parts]
        names += sorted(set(identifiers(ast.parse(path.read_text()))), key=lambda pair: pair[1])
        for name, line in names:
            word = old_word(name, parts, whole)
            if word and not is_allowed(name, file):
                found[word].append(f"{file}:{line} {name}")
    return found


def find_prose(files: list[Path]) -> dict[str, list[str]]:
    """Return comments and strings that contain a private word."""
    private = re.compile(rf"\b({'|'.join([*PARTS, *METAPHORS])})\b", re.IGNORECASE)
    found: dict[str, list[str]] = defaultdict(list)
    for path in files:
        file = path.relative_to(SOURCE).as_posix()
        for line, number in prose(path.read_text()):
            for word in {word.lower() for word in private.findall(line)}:
                found[word].append(f"{file}:{number} {line.strip()}")
    return found


def show(title: str, found: dict[str, list[str]], new: dict[str, str], totals: bool) -> None:
    """Print places by word, the most frequent word first."""
    n_places = sum(map(len, found.values()))
    print(f"\n== {title}: {len(found)} words, {n_places} places")
    for word, places in sorted(found.items(), key=lambda item: -len(item[1])):
        print(f"{word} -> {new.get(word, '')}: {len(places)}")
        if not totals:
            print(*(f"    {place}" for place in places), sep="\n")


def show_lines(files: list[Path]) -> None:
    """Print lines and untyped dictionaries per package, and the longest files."""
    untyped = re.compile(r"\b(?:dict|Mapping|MutableMapping)\[str, Any\]")
    lines: Counter[str] = Counter()
    dicts: Counter[str] = Counter()
    longest = []
    for path in files:
        text = path.read_text()
        inside = path.relative_to(SOURCE).parts
        package = inside[0] if len(inside) > 1 else "(modules)"
        lines[package] += text.count("\n")
        dicts[package] += len(untyped.findall(text))
        longest.append((text.count("\n"), "/".join(inside)))
    print("\n== lines, and dict[str, Any] or Mapping[str, Any]")
    for package, n_lines in lines.most_common():
        print(f"{package:14} {n_lines:6} {dicts[package]:5}")
    print(f"{'total':14} {lines.total():6} {dicts.total():5}")
    print("longest files:", *(f"{file} {n}," for n, file in sorted(longest, reverse=True)[:12]))


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", help="packages or modules of scstream; default all")
    parser.add_argument("--totals", action="store_true", help="print counts, not places")
    parser.add_argument("--prose", action="store_true", help="also search comments and strings")
    args = parser.parse_args()
    files = sorted(SOURCE.rglob("*.py"))
    if args.packages:
        wanted = set(args.packages)
        files = [f for f in files if Path(f.relative_to(SOURCE).parts[0]).stem in wanted]
    show("private words of the rename table", find(files, PARTS, {}), PARTS, args.totals)
    show("ordinary words of the rename table", find(files, {}, WHOLE), WHOLE, args.totals)
    show("other metaphors", find(files, METAPHORS, {}), METAPHORS, args.totals)
    if args.prose:
        show("comments and strings", find_prose(files), PARTS | METAPHORS, args.totals)
    show_lines(files)


if __name__ == "__main__":
    main()
