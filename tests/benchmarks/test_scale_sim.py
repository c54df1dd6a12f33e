"""Laws of the communication simulator; not how fast anything is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.scale import page, rates
from benchmarks.scale.network import command
from benchmarks.scale.tables import COMING, alone, curve, fewest_nodes, least_batch, line, prices
from benchmarks.scale_sim import (
    Engine,
    Job,
    Network,
    Work,
    Workers,
    efficiency,
    local,
    makespan,
    overhead,
    replay,
    sweep_seconds,
)
from benchmarks.speed.timing import Budget
from scstream.core.row_ranges import RowRange

WORK = Work(
    n_features=64,
    n_clusters=1000,
    sampling=70e-6,
    predictive=72e-6,
    asked=75e-6,
    sampling_step=0.17,
    predictive_step=0.03,
    rest=0.4,
    label=1e-8,
    plan_bytes=51_480_000,
    sums_bytes=34_328_016,
)
ENGINE = Engine(
    call=4e-4, latency=5e-4, put=3e-4, reference=7e-5, part=5e-5, copy=2e-10, look=2e-10, add=4e-10
)
jobs = st.builds(
    Job,
    st.integers(1, 10_000_000),
    st.integers(0, 3),
    asked=st.booleans(),
    resident=st.booleans(),
    scatter=st.booleans(),
    shared_step=st.booleans(),
)
crews = st.builds(Workers, st.integers(1, 1000), st.integers(1, 32))


def seconds(job: Job, workers: Workers, *, engine: Engine = ENGINE, network: Network) -> float:
    return sum(replay(WORK, job, workers, engine=engine, network=network).values())


@given(jobs, st.integers(1, 32))
def test_one_worker_of_a_free_engine_is_the_local_run(job, n_threads):
    alone = seconds(job, Workers(1, n_threads), engine=Engine(), network=Network())
    assert alone == pytest.approx(local(WORK, job, n_threads), rel=1e-12)


def test_the_local_run_is_the_sum_of_its_parts():
    job = Job(40_960, n_sweeps=1)
    parts = 0.17 + 2 * 0.03 + 0.4 + 40_960 * (70e-6 + 72e-6 + 1e-8) + 16_384 * 75e-6
    assert local(WORK, job, 1) == pytest.approx(parts, rel=1e-12)


@settings(max_examples=50)
@given(jobs, crews, st.floats(1.0, 400.0), st.floats(1.0, 4.0))
def test_time_never_grows_with_bandwidth(job, workers, gigabits, more):
    slow, fast = (Network.of(speed) for speed in (gigabits, more * gigabits))
    assert seconds(job, workers, network=fast) <= seconds(job, workers, network=slow) + 1e-12


@settings(max_examples=50)
@given(jobs, crews, st.sampled_from(list(Engine.__dataclass_fields__)))
def test_time_never_falls_with_a_price(job, workers, price):
    network = Network.of(25.0)
    dear = replace(ENGINE, **{price: 2 * getattr(ENGINE, price)})
    assert seconds(job, workers, engine=dear, network=network) >= seconds(
        job, workers, network=network
    )


@settings(max_examples=100)
@given(jobs, crews, st.sampled_from([10.0, 25.0, 100.0]))
def test_efficiency_is_a_share(job, workers, gigabits):
    network = Network.of(gigabits)
    found = efficiency(WORK, job, workers, engine=ENGINE, network=network)
    assert 0.0 < found <= 1.0 + 1e-12
    assert 0.0 <= overhead(WORK, job, workers, engine=ENGINE, network=network) < 1.0


@pytest.mark.parametrize("gigabits", [10.0, 25.0, 100.0])
def test_reduce_scatter_beats_the_star_beyond_some_number_of_workers(gigabits):
    network = Network.of(gigabits)

    def scattered_is_faster(n: int) -> bool:
        star, scattered = (
            seconds(Job(1 << 22, scatter=scatter), Workers(n, 16), network=network)
            for scatter in (False, True)
        )
        return scattered < star

    assert not scattered_is_faster(1)
    first = next(n for n in range(2, 100) if scattered_is_faster(n))
    assert all(scattered_is_faster(n) for n in range(first + 8, 100, 7))


def test_references_end_the_advantage():
    # Every worker gets a part from every other: the driver passes W² references on.
    network = Network.of(100.0)
    spent = replay(
        WORK, Job(1 << 22, scatter=True), Workers(1000, 16), engine=ENGINE, network=network
    )
    assert spent["reduction"] > 0.9 * 1000**2 * ENGINE.reference


@given(st.integers(1, 5_000_000), st.integers(1, 64))
def test_a_thread_takes_whole_slices(n_rows, n_threads):
    row_range = RowRange.full(n_rows)
    free = [0] * n_threads
    for at in range(row_range.first, row_range.stop):
        turn = free.index(min(free))
        free[turn] += len(replace(row_range, first=at, stop=at + 1).rows)
    assert makespan(row_range, n_threads) == max(free)


@pytest.mark.parametrize(("n", "levels"), [(2, 1), (3, 2), (4, 2), (8, 3), (9, 4)])
def test_a_broadcast_is_a_tree(n, levels):
    # Free but for the network, and no rows to speak of: the last plan comes after so many hops.
    job = Job(16 * 4096, asked=False)
    idle = replace(WORK, sampling=0.0, predictive=0.0, sums_bytes=0)
    network = Network(bytes_per_s=1e9)
    hop = idle.plan_bytes / 1e9
    assert sweep_seconds(idle, job, Workers(n, 1), network=network) == pytest.approx(levels * hop)
    star = replace(network, tree=False)
    assert sweep_seconds(idle, job, Workers(n, 1), network=star) == pytest.approx((n - 1) * hop)


def test_threads_beyond_the_processors_bring_nothing():
    job = Job(1 << 20)
    two, four = (sweep_seconds(WORK, job, Workers(n, 1, driver_threads=2, cores=2)) for n in (2, 4))
    assert four == pytest.approx(two, rel=1e-3)


def test_prices_are_slopes_and_intercepts():
    def rows(figure: str, points: dict[float, float], by: str) -> list[dict[str, str]]:
        zero = {"megabytes": "0", "n": "0"}
        return [
            {"figure": figure, **zero, by: str(x), "median_ms": str(y)} for x, y in points.items()
        ]

    table = [
        *rows("calls", {1: 1.0, 2: 1.5, 4: 2.5}, "n"),
        *rows("submitted", {1: 1.0, 8: 1.7}, "n"),
        *rows("references", {1: 2.0, 8: 3.4}, "n"),
        *rows("put", {0: 0.5, 10: 2.5}, "megabytes"),
        *rows("broadcast", {0: 1.0, 10: 5.0}, "megabytes"),
        *rows("return", {0: 1.0, 10: 4.0}, "megabytes"),
        *rows("add", {0: 0.0, 10: 4.0}, "megabytes"),
    ]
    found = prices(table)
    assert line(table, "put", "megabytes") == pytest.approx((2e-4, 5e-4))
    assert vars(found) == pytest.approx(
        {
            "call": 5e-4,
            "latency": 5e-4,
            "put": 5e-4,
            "reference": 1e-4,
            "part": 1e-4,
            "copy": 2e-10,
            "look": 1.5e-10,
            "add": 4e-10,
        }
    )


def test_what_starts_ray_goes_into_a_network_of_its_own():
    words = command(["engine"])
    assert words[0] == "unshare"
    assert "--net" in words
    assert words[-2:] == ["scale", "engine"]


def test_rates_are_of_all_parts_of_a_batch():
    found = rates.rates(2, 20, "float64", n_rows=8192, budget=Budget(0.05, 2))
    work = rates.work_of(found)
    assert min(work.sampling, work.predictive, work.asked, work.sampling_step) > 0
    assert work.plan_bytes == 3 * 20 * 6 * 8
    # What the simulator makes of the parts is about what the whole batch took.
    assert 0.2 < local(work, Job(8192), 1) * found["fit_rows_per_s"] / 8192 < 5.0


def test_little_work_needs_no_engine_and_much_work_does():
    light = replace(WORK, predictive=5e-7, asked=5e-7, predictive_step=1e-4, rest=1e-3)
    assert alone(light, 0) == 1
    assert alone(WORK, 0) is None
    n, choice = fewest_nodes(WORK, ENGINE, COMING[2], 0)
    assert 1e6 * WORK.predictive / 16 < n < 12
    job, network = Job(COMING[2], **choice), Network.of(25.0)
    assert COMING[2] / seconds(job, Workers(n, 16), network=network) >= 1e6
    assert COMING[2] / seconds(job, Workers(n - 1, 16), network=network) < 1e6


def test_the_smallest_batch_leaves_the_engine_its_share():
    workers, network = Workers(4, 16), Network.of(25.0)
    n_rows = least_batch(WORK, ENGINE, workers, Job(1, scatter=True), network)
    share = [
        overhead(WORK, Job(n, scatter=True), workers, engine=ENGINE, network=network)
        for n in (n_rows, n_rows // 8)
    ]
    assert share[0] < 0.1 < share[1]


def test_a_curve_lists_what_the_seconds_were_spent_on():
    rows = list(curve({"precision": "float64"}, WORK, Job(1 << 20), ENGINE, 25.0, "star"))
    assert rows[0]["workers"] == 1
    assert rows[-1]["workers"] == 1000
    for row in rows:
        parts = list(row.values())[list(row).index("efficiency") + 1 :]
        assert sum(parts) == pytest.approx(row["seconds"], rel=1e-2)


def test_the_page_is_made_from_the_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "EVIDENCE", tmp_path)
    page.write()
    text = (tmp_path / "scale.md").read_text()
    assert "| 64 | 1000 | float64 |" in text
    assert "## When not to use the engine" in text
    assert (tmp_path / "scale-efficiency.png").stat().st_size > 0
    assert max(line.count("|") for line in text.splitlines()) < 25


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_the_driver_adds_what_the_slices_of_the_workers_make_up(n):
    job = Job(1_000_000)
    idle = replace(WORK, sampling=0.0)
    trees = sum(len(s.subtrees()) for s in RowRange.full(job.n_rows).shards(n))
    found = sweep_seconds(idle, job, Workers(n, 1), engine=Engine(add=1e-9))
    assert found == pytest.approx(1e-9 * WORK.sums_bytes * (trees - 1))
    aligned = sweep_seconds(
        idle, replace(job, aligned=True), Workers(n, 1), engine=Engine(add=1e-9)
    )
    assert aligned == pytest.approx(1e-9 * WORK.sums_bytes * (n - 1))


def test_workers_on_one_machine_have_no_network_between_them():
    workers = Workers(4, 1, cores=8)
    for job in (Job(1 << 20, resident=False), Job(1 << 20, scatter=True, shared_step=True)):
        slow, none = (seconds(job, workers, network=net) for net in (Network.of(0.1), Network()))
        assert slow == none
