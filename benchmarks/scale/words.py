"""What the page says beside its tables."""

HEAD = """\
# Scale

Made by `python -m benchmarks scale page` from `benchmarks/results/scale-*`; do not edit. The parts
are measured by `python -m benchmarks scale engine`, `stability`, `overhead`, `sim` and others
below; those that start Ray go into a network namespace of their own.

{machine}

Most streams need no engine: one core is enough, or one machine. What follows says where that ends.
Times of kernels and of the engine are measured on two cores. Whatever concerns more machines than
one is simulated (`benchmarks/scale_sim.py`): the pattern of a batch is replayed, who waits for
whom, with the measured prices. Assumed are nodes of 16 threads that do not slow each other down,
links of 25 Gb/s and 50 µs unless said, nodes that pass a plan on once they have it, and rows that
are in the stores of the nodes already.
"""

RATES = """\
One thread, CPU time. A whole batch is a `partial_fit` of the default algorithm in mid-stream: the
pass that asks at most 16,384 rows, one pass over all of them, parameters, moves and labels. Where
K is large these batches are small, and what does not depend on their rows is much of them. Rows of
D = 384 are unit vectors and learned by the direction family, all others by the Gaussian one.
"""

CORES = """\
The default algorithm (no sampling sweeps: one pass over all rows, and that of the asked ones) and
with one sampling sweep (two passes). "Kernels alone" is what the passes take. "In all" is the least
that keeps up, with parameters, moves, engine and network, for batches of one, four and seventeen
seconds of stream, by the better way to reduce; sizes at which no number of nodes keeps up are
left out. The smallest batch is that from which on engine and network together take less than 10 %
of the time, on as many nodes as the largest of these batches needs.
"""

TERMS = """\
Where the seconds of such a batch go, at the largest size. Parameters, the asked pass and moves are
the driver's own: nobody else works meanwhile, and they do not shrink with more nodes. The asked
pass has four slices: four threads are all it can use, and the driver has these. Its rows come from
the workers, 16,384 of them, which is less than the parameters and sums of a pass on the workers. A
driver with fewer threads leaves the rows there.
"""

RULE = """\
Use threads, not the engine, where one machine keeps up; that is nearly always. At D of 64 and more
a core passes {flops} / (2 K (D² + 3 D)) rows a second in float64 and {single:.2g} times as many in
float32; divide by the number of passes.

If that is not enough, look at one batch. Two machines of 16 cores make it half as fast again only
if one of them takes longer than {seconds}. Below that what the driver does alone, the asked pass
and the moves above all, counts for too much. Never send rows of a small model from the driver: to
copy them takes longer than to learn them. Batches of 1e3 to 1e4 rows are never spread. Many models
need no spreading either: each of them is small.

The smallest batch that two nodes learn 1.5 times as fast as one:
"""

FIGURE = """\
The time of one node alone, over that of all nodes together times their number. Batches have a fixed
size, so that more workers have ever less to do. The steps in the curves are slices, which nobody
can cut; the star is best at powers of two, where the slices of a worker are one subtree of the sum.

![Efficiency against workers](scale-efficiency.png)
"""

NOTES = """\
The design notes (`SCALE.md`, section 4) worked the case D = 64, K = 1000 out by hand. Kernels need
about what they expected in float32 and far less in float64. What differs is the communication: a
plan holds clusters and both their halves, and sums come by halves, so that two to three times the
bytes move; a worker returns the sums of all subtrees that its slices make up, one if the number of
workers is a power of two and several if not; everything is copied into the store, and out of it,
and added on the way; the driver submits and collects one call after the other, and in a
reduce-scatter passes W² references on; and the asked pass and the moves stand still on the driver.
The notes had none of these, and so much smaller batches. That K and D cancel is right for the bytes
only.
"""

OVERHEAD = """\
200,000 x 64, K = 100, float64; by turns in one run, wall time. The simulator is told how fast the
threads of the same run are, and the prices of the engine as measured below, and has to say what
the workers take; four workers share two processors. A batch comes from the driver, and its labels
go back there. The load of the machine was {load} when this was done: what other work takes from
two processors it takes from the rounds with two threads or workers, not from those with one.
"""

ENGINE = """\
One round without work: a plan to two workers, sums of the same size back and added. Threads are the
bare limit.
"""

STABILITY = """\
Plain actors beside a compiled graph. Every case is a driver of its own; seconds are medians where
something was done several times.
"""

OTHERS = {  # by part: the heading, and what it says
    "traffic": (
        "Messages and bytes",
        """\
The same batch, 200,000 x 64 with K = 100, from the driver. Objects are put into the store once and
go to every node once; a call is one message out, its result one message back. In a pass the plan
goes out (5.2 MB) and one sum per subtree comes back (3.4 MB). One, two and four workers have one
subtree each; three have nine together.""",
    ),
    "kills": (
        "Workers killed",
        """\
Two workers, one of them killed (-9) at a random moment whenever both are up; every batch is
compared with one process bit for bit, labels and state. Afterwards nothing may be left.""",
    ),
    "memory": (
        "Memory over many batches",
        """\
Batches of six clusters in eight dimensions; means of the second quarter and of the last. What is in
the object store is looked at between two batches; Ray frees about once a second.""",
    ),
    "pool": (
        "Many models",
        """\
Ten rows for each of 10,000 keys in a batch, against one process that learns the same batches by
turns; labels, rejects and counts are compared after every batch, and all model files at the end.
The machine did other work meanwhile (load 4 to 12 on two processors), so that seconds by the clock
say little; processor seconds of the driver and the busiest worker are the path that counts.""",
    ),
    "replicas": (
        "Reading replicas",
        """\
K = 30, D = 10, one thread each. Rates against the same questions in this process, and to a plain
actor of Ray; staleness is the time from the publication of a checkpoint to the first answers from
it by all replicas. The machine did other work meanwhile: trust the ratios.""",
    ),
}
