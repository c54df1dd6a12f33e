"""The page of the fault tests, from the tables that the long runs wrote."""

from __future__ import annotations

import csv
import platform
from pathlib import Path

import scstream
from benchmarks.results_io import RESULTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "faults.md"
Table = list[dict[str, str]]

HEAD = """\
# Faults

Made by `python -m benchmarks faults` from `benchmarks/results/faults-*.csv`; do not edit.
scstream {version}, Python {python}, {machine}; two cores, shared with other work.

What the pipeline promises is written in the reliability notes: no row that the source keeps is lost
or counted twice whatever is killed when, a replay is bit-identical, two instances never both
commit, and nothing a row or a file contains breaks the model. Each promise has tests in
`tests/faults` that run in CI, and the same tests run for long here. The simulated disk, the loop of
kills, the games of two instances, the fuzz and the reader are also run against planted defects,
which they must find: no sync of files, no sync of folders, acknowledgement before
the checkpoint, checkpoint before the labels, cuts by the clock that are not logged, labels that are
not cut back, a short write taken for a whole one, a failed sync that is tried again, a rename in
place of compare-and-set, a stale position, a reader and a door without checks. All of
`tests/faults` takes about 440 seconds of processor time; it took 7:44 minutes on two cores that
other work kept busy as well.

In the first column are the goals, for CI and for long.

| goal | in CI | here | reached here |
|---|---|---|---|
"""

SECTIONS = {
    "simdisk": (
        "Simulated disk",
        """\
The real runner, ledger, store and file sink on a disk in memory that loses, tears and reorders what
was not synced, with a source that forgets what was acknowledged, and a model whose labels are a
running hash. First every operation once: killed after it, amid it, with eight kinds of power loss,
and failing with EIO and ENOSPC. Then crashes at random, one after another, until a run comes to its
end. After each: rows counted, labels and checkpoint compared with an uninterrupted run, and no
label that a reader has seen is ever taken back. What limits: a crash costs about a millisecond,
nearly all of it in the pipeline itself.""",
    ),
    "kills": (
        "kill -9",
        """\
A real model, real files and real brokers (Redis with appendfsync always, NATS with sync_interval
always); every run is a fork of one process that has everything imported, and lives for a random
time. Labels and all tensors of the last checkpoint are those of an undisturbed run,
bit for bit.""",
    ),
    "edits": (
        "kill -9 while people edit",
        """\
As above, with thirteen edits of every kind in each round: `--edits` names the batches and sends all
of them before the first run; `--live` sends them at random, while the pipeline runs or is down, and
compares with an undisturbed run that applies them before the batches that the killed runs took.
Labels with names and groups, and the model with names and events, are the same bit for bit.""",
    ),
    "brokers": (
        "Brokers killed behind a bad network",
        """\
Rounds of 10,000 rows through a proxy that resets, tears, delays and holds back; broker and pipeline
are killed again and again. What limits: the wait until a broker is back and clients find it. One
early run of NATS, while the connectors were still being written, ended without a result, and its
message was not kept; seven runs of the same plan afterwards (six seeds) had nothing wrong.""",
    ),
    "kafka": (
        "kill -9, from Kafka to Kafka",
        """\
One Apache Kafka 4.3.1 that syncs every message (log.flush.interval.messages 1); labels are written
in transactions. Labels that readers of committed messages see, and all tensors of the last
checkpoint, are those of an undisturbed run, bit for bit. An earlier run, before the source compared
the id of the topic with every read, had 1,006 kills and 0 wrong. The sink without transactions
(`kafka-idempotent`) was not run for long.""",
    ),
    "kafka_brokers": (
        "kill -9 of a broker of three",
        """\
Three Kafka 4.3.1, each broker and controller, three replicas, min.insync.replicas 2; one broker
after another is killed at random and started again while the pipeline runs, and the pipeline is
killed too. The run began before callbacks of the client were run while `open` waits for
brokers.""",
    ),
    "table_kills": (
        "kill -9, into tables",
        """\
From files into a Delta table and into an Iceberg table with a catalog in SQLite; afterwards the
tables hold every row once with the labels of an undisturbed run.""",
    ),
    "qdrant_kills": (
        "kill -9, into payloads of Qdrant",
        """\
From files into the payloads of points that were there before, one for each row. No server of Qdrant
can be installed here: the client is in its local mode, whose storage (SQLite, one transaction for
each point) is in the process that is killed. Afterwards every point has the label of its row, in
its batch, from an undisturbed run, and its vector and the rest of its payload are as before.""",
    ),
    "failover": (
        "Failover",
        """\
Two instances with a lease of two seconds; the one that works is killed, stopped by SIGSTOP and
continued after the other has taken over, or cut off from all servers (it runs in a network
namespace whose link goes down). `acquired` and `working` are seconds from the fault until the
standby has the lease and until it writes its first label; `late` counts those whose first label
came after more than twice the lease. `two_writers` counts rounds in which anything of the first
instance was stored after something of the second: NATS numbers what it stores, and for files it is
the time when the call to write returned. Codes are what first instances ended with: 18 is a lease
that could not be renewed. `repeated` are codes of standbys that took over, ended and were started
again. In all rounds labels were those of an undisturbed run.

The processes had priority over other work on the machine. An earlier run without priority, at a
load of about 10 on two cores, had 4 of 180 first labels late; it counted as two writers one frozen
instance whose call to put rows into the queue of the NATS sink returned when it woke up, although
the server stored none of them. A lease of one second is too short for a busy machine: a standby
lost it.""",
    ),
    "zombies": (
        "Two instances",
        """\
An instance is stopped by SIGSTOP, a plain second one is refused, one with `take_over` goes on, and
the first wakes up in the midst of it. Codes are what zombies ended with: 13 is fenced, 16 a sink
that saw a second writer. In the simulation the two take turns at operations chosen at random.""",
    ),
    "fuzz": (
        "Fuzzed batches",
        """\
Messages in three formats with NaN, infinities, 1e308, denormals, constant and duplicate columns,
wrong types and widths, rubbish and nothing, through the reader into models of five families. After
every batch all numbers of the state are finite and every covariance is positive definite.""",
    ),
    "reader": (
        "Hostile model files",
        """\
atheris on `model_from`: bytes as they come, and sound files changed in one to four places and then
sealed again, so that every checksum holds. Only `CheckpointCorrupt` and `CheckpointTooNew` may come
out, and a file that is accepted must hold a sound model. The goal of a billion is out of reach: to
read a sealed file takes a millisecond.""",
    ),
    "bombs": (
        "Bodies that describe far more than they hold",
        """\
Arrow, Parquet, JSON, CSV, raw numbers, gzip and model files, a few bytes to 32 MB each, that would
need up to gigabytes if a decoder believed them; `python -m tests.faults.bombs` lists them. They are
posted to `scstream serve` (to predict and to learn, plain and marked as gzip and deflate) and sent
through every source to `scstream run` with 14 columns, whose server is a real one. The process may
use 1 GiB of address space in all (RLIMIT_AS), with MALLOC_ARENA_MAX=2 and the memory pool "system"
of Arrow, because each thread, and the default pool, else reserves addresses that it does not use.
`rejected` got a status of 400 to 499 and a sentence, `dead_lettered` a dead letter with a sentence;
`accepted` are tables that fit the budget of one message (256 MiB, 2^20 rows), whose rows were
learned; `kills` counts ends of the process, `peak` is resident memory in MB. Messages are sent one
at a time; NATS gets at most 14 MiB of one. Files have four formats, and of JSON and CSV each line
counts for itself; of bodies that are lines only one kind is sent as JSON and one as CSV, and 1 MiB
of it, because each line becomes a dead letter. The first run with files came to no end: a file of
960 bytes with one text of 1 MB for 65,536 rows was read in parts, and each row's text was written
to the labels. Such a group of rows is now a dead letter. A run before this one rejected a sound
message of nulls because memory was short; decoding it now needs one copy of the rows less. The
targets were run one by one (`python -m tests.faults.bombing TARGET`), two at a time.""",
    ),
    "soak": (
        "Soak",
        """\
Messages through Redis into a model and back, both streams trimmed; one row of ten messages cannot
be used and becomes a dead letter in files that rotate, every 20 batches a cluster gets a name, and
alert rules are on. The first quarter is warm-up; the second is compared with the last. Memory and
disk (checkpoints and dead letters) are medians of megabytes. Times are milliseconds of processor
time that the learning thread takes for a batch; the plain p99 and the median compare the two
quarters, and with them the moods of the machine, which are worth tens of per cent. The p99 that
counts therefore sets two models side by side after the run, the one of the end of the warm-up and
the last one: both learn the same fifty messages by turns, twenty times, and a message counts at its
fastest. Twelve runs of 4e6 rows, half of them on a machine kept busy by three other processes, gave
-2.2 to +0.7 %. (Quarters, however cut, gave -33 to +19 %, and failed the gate once by their noise.)
What a commit and the brokers take is not in these times.""",
    ),
    "explosion": (
        "K explosion",
        """\
Batches of 40 groups at ever new places on a growing lattice, and two half-lives of calm after them:
of eight attacks that were tried the one with the most clusters.
K never passes `max_clusters`, memory stays, and the labels of calm rows are right again after it.
Two things are not as the reliability notes have them. The core bounds what is born by max(32, K/2)
for births and again for the splits of every sweep, not by max(8, K/4) a batch. And clusters of the
attack, some of them heavy, are still counted two half-lives later: a cluster of weight w goes after
about log2(w / min_weight) half-lives without rows.""",
    ),
}


def write() -> None:
    """Make the page; parts without a table are left out."""
    tables = {name: read(name) for name in SECTIONS}
    text = HEAD.format(
        version=scstream.__version__,
        python=platform.python_version(),
        machine=platform.machine(),
    )
    text += "".join(f"| {' | '.join(line)} |\n" for line in goals(tables))
    for name, (title, detail) in SECTIONS.items():
        if tables[name]:
            command = f"python -m benchmarks faults {name} --scale {tables[name][0]['scale']}"
            text += f"\n## {title}\n\n{detail}\n\n`{command}`\n\n"
            text += shown(tables[name])
    PAGE.write_text(text)


def read(name: str) -> Table:
    path = RESULTS / f"faults-{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def goals(tables: dict[str, Table]) -> list[tuple[str, str, str, str]]:
    """Goal, count in CI, count here, and whether anything was wrong."""
    n_disk = total(tables["simdisk"], "chained crashes")
    n_kills = total(tables["kills"], "kills")
    n_rows, n_brokers = total(tables["brokers"], "rows"), total(tables["brokers"], "broker_kills")
    soaked = tables["soak"][0] if tables["soak"] else {}
    wrong = wrongs(tables)
    return [
        (
            "kill -9 at random instants (1,000; 100,000)",
            "32, 24 of them with edits, a miss",
            f"{n_kills:,}",
            wrong["kills"],
        ),
        (
            "kill -9 while people edit (200)",
            "24, a miss",
            f"{total(tables['edits'], 'kills'):,}",
            wrong["edits"],
        ),
        (
            "crashes of a simulated disk (100,000; 1e7)",
            "3,000 and every operation once, a miss",
            f"{n_disk:,}",
            wrong["simdisk"],
        ),
        (
            "rows through brokers that are killed (5 x 10,000; 200 x 1e6)",
            "2 x 5,000, a miss",
            f"{n_rows:,}, {n_brokers} broker kills",
            wrong["brokers"],
        ),
        (
            "kill -9 with Kafka 4 at both ends (1,000)",
            "none",
            f"{total(tables['kafka'], 'kills'):,}",
            wrong["kafka"],
        ),
        (
            "kill -9 of a Kafka broker of three (100)",
            "5",
            f"{total(tables['kafka_brokers'], 'broker_kills'):,}",
            wrong["kafka_brokers"],
        ),
        (
            "kill -9 with Delta and Iceberg tables (200 each)",
            "Delta, in the tests of kills",
            f"{total(tables['table_kills'], 'kills'):,}",
            wrong["table_kills"],
        ),
        (
            "kill -9 with points of Qdrant (200)",
            "none",
            f"{total(tables['qdrant_kills'], 'kills'):,}",
            wrong["qdrant_kills"],
        ),
        ("source regression and gaps (all scenarios)", "17 scenarios", "in CI", "all found"),
        (
            "fuzzed batches (50,000; 1e6)",
            "1,000, a miss",
            f"{total(tables['fuzz'], 'batches'):,}",
            wrong["fuzz"],
        ),
        (
            "reader fuzz (60 s; 1e9)",
            "15 s, a miss",
            f"{total(tables['reader'], 'files'):,} files",
            wrong["reader"],
        ),
        (
            "bombs under 1 GiB, service and every source (60)",
            "service, readers of messages",
            f"{total(tables['bombs'], 'bodies'):,} bodies, {total(tables['bombs'], 'kills')} kills",
            wrong["bombs"],
        ),
        (
            "soak: memory ±2 %, p99 at most +10 % (1e6 rows; 1e8)",
            "1e6 rows",
            f"{int(soaked.get('rows', 0)):,} rows",
            f"memory {soaked.get('memory drift', '?')}, p99 side by side "
            f"{soaked.get('p99 drift', '?')}, plain p99 {drift(soaked, 'plain_p99')}",
        ),
        (
            "K explosion (200 batches; 1e5)",
            "200 batches",
            f"{total(tables['explosion'], 'batches'):,} batches",
            "K, memory and labels yes; births a batch and K afterwards no, see below",
        ),
        (
            "failover: killed, frozen, cut off (100 each), within twice the lease",
            "3 x 1",
            " + ".join(failed(tables["failover"], fault) for fault in ("kill", "freeze", "cut")),
            wrong["failover"],
        ),
        (
            "two instances (20; 1,000)",
            "3 x 2, a miss, and 450 games simulated",
            f"{total(tables['zombies'], 'zombies'):,}",
            wrong["zombies"],
        ),
    ]


def wrongs(tables: dict[str, Table]) -> dict[str, str]:
    """How much was lost, doubled or different, by part."""
    bad = ("wrong", "lost", "doubled", "other_labels", "other_models", "two_committers")
    bad += ("late", "two_writers")
    counts = {
        name: sum(total(table, column) for column in bad if table and column in table[0])
        for name, table in tables.items()
    }
    return {name: f"{count} wrong" if tables[name] else "not run" for name, count in counts.items()}


def failed(table: Table, fault: str) -> str:
    """How many rounds of one fault there were."""
    return str(total([line for line in table if line["fault"] == fault], "rounds"))


def drift(line: dict[str, str], name: str) -> str:
    if not line:
        return "?"
    return f"{100 * (float(line[f'{name}, late']) / float(line[f'{name}, early']) - 1):+.1f} %"


def total(table: Table, column: str) -> int:
    return sum(int(line[column]) for line in table)


def shown(table: Table) -> str:
    names = [name for name in table[0] if name != "scale"]
    lines = [names, ["---"] * len(names), *([line[name] for name in names] for line in table)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
