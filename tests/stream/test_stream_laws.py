"""The kits for sources and sinks name the law that a wrong implementation breaks."""

import threading
import time

import pytest

from scstream.errors import InputError, SinkError, StreamError
from scstream.stream.sink import plain_rows
from scstream.stream.source import Record
from scstream.testing import SINK_LAWS, SOURCE_LAWS, check_sink, check_source


class Numbers:
    """A correct source of a list of messages; the wrong ones derive from it."""

    done = False

    def __init__(self, messages):
        self.messages, self.at = messages, 0

    def identity(self):
        return {"list": "numbers"}

    def open(self, resume, *, accept_gap=False):
        self.at = resume.positions.get("", 0) if resume else 0

    def read(self, max_n, timeout):
        start, self.at = self.at, min(self.at + max_n, len(self.messages))
        return [Record(i, i + 1, self.messages[i]) for i in range(start, self.at)]

    def acknowledge(self, positions):
        pass

    def lag(self):
        return len(self.messages) - self.at

    def close(self):
        pass


class SkipsAfterReopening(Numbers):
    def open(self, resume, *, accept_gap=False):
        super().open(resume)
        self.at += bool(self.at)


class RepeatsAfterReopening(Numbers):
    def open(self, resume, *, accept_gap=False):
        super().open(resume)
        self.at -= bool(self.at)


class ForgetsPositionsInsideReads(Numbers):
    def read(self, max_n, timeout):
        found = super().read(max_n, timeout)
        return [Record(r.position, self.at, r.value) for r in found]


class CountsFromWhereItWasOpened(Numbers):
    def open(self, resume, *, accept_gap=False):
        super().open(resume)
        self.first = self.at

    def read(self, max_n, timeout):
        found = super().read(max_n, timeout)
        return [Record(r.position - self.first, r.after - self.first, r.value) for r in found]


class Shuffles(Numbers):
    def read(self, max_n, timeout):
        return super().read(max_n, timeout)[::-1]


class GivesTooMany(Numbers):
    def read(self, max_n, timeout):
        return super().read(max_n + 1, timeout)


class PositionsAreTuples(Numbers):
    def open(self, resume, *, accept_gap=False):
        self.at = resume.positions.get("", (0,))[0] if resume else 0

    def read(self, max_n, timeout):
        found = super().read(max_n, timeout)
        return [Record((r.position,), (r.after,), r.value) for r in found]


class IsAnotherEveryTime(Numbers):
    def identity(self):
        return {"opened": str(id(self)) + str(time.monotonic_ns())}


class IsNumbered(Numbers):
    def identity(self):
        return {"list": 7}


class Dawdles(Numbers):
    def read(self, max_n, timeout):
        found = super().read(max_n, timeout)
        time.sleep(0.0 if found or timeout < 0.1 else timeout + 1.1)
        return found


class EndsTooSoon(Numbers):
    @property
    def done(self):
        return self.at == len(self.messages)


class ClosesOnce(Numbers):
    is_closed = True

    def open(self, resume, *, accept_gap=False):
        super().open(resume)
        self.is_closed = False

    def close(self):
        if self.is_closed:
            raise StreamError("it is closed already")
        self.is_closed = True


class OpensOnce(Numbers):
    def open(self, resume, *, accept_gap=False):
        if not self.at:
            super().open(resume)


class SeesWhatWasThere(Numbers):
    def __init__(self, messages):
        super().__init__(list(messages))


class BelongsToOneThread(Numbers):
    def acknowledge(self, positions):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("this is another thread")


class ForgetsWhatWasAcknowledged(Numbers):
    def acknowledge(self, positions):
        self.messages[positions[""]] = b"-1"


class OwesSomething(Numbers):
    def lag(self):
        return -1


@pytest.mark.parametrize(
    ("wrong", "law", "detail"),
    [
        (SkipsAfterReopening, "replay", r"gave \[2, 3, .* instead of \[1, 2, .* read from 1"),
        (RepeatsAfterReopening, "replay", r"gave \[0, 1, .* instead of \[1, 2, "),
        (ForgetsPositionsInsideReads, "replay", "3 is after one message and the position of"),
        (CountsFromWhereItWasOpened, "restarts", "when it was restarted after every message"),
        (Shuffles, "order", r"partition '' gave \[2, 1, 0.*out of order"),
        (GivesTooMany, "order", r"read\(3\) returned 4 messages"),
        (PositionsAreTuples, "json_positions", r"position is \(0,\), which is not JSON"),
        (IsAnotherEveryTime, "identity", "and is .* when reopened"),
        (IsNumbered, "identity", "{'list': 7}, which is not a mapping of text to text"),
        (Dawdles, "read_timeout", r"read took 1\.\d s with a timeout of 0\.2 s"),
        (EndsTooSoon, "read_timeout", "done is True at the end"),
        (ClosesOnce, "reopen", r"it raised StreamError \(it is closed already\)"),
        (OpensOnce, "reopen", r"gave \[1, 2, .* instead of \[0, 1, .* opened a second time"),
        (SeesWhatWasThere, "appended_rows", "while it waited for more"),
        (Numbers, "regressed", r"open at the positions {'': 17} raised no SourceRegressed"),
        (Numbers, "changed", "raised no SourceChanged"),
        (BelongsToOneThread, "threads", r"it raised RuntimeError \(this is another thread\)"),
        (ForgetsWhatWasAcknowledged, "threads", "-1"),
        (OwesSomething, "threads", "the lag is -1, which is neither None nor"),
    ],
)
def test_the_error_names_the_law_that_a_source_breaks(wrong, law, detail):
    messages = []
    how = {
        "regressed": {"past_end": lambda at: at + 1},
        "changed": {"other": lambda: Numbers(messages)},
    }
    with pytest.raises(
        AssertionError, match=f"^{wrong.__name__} breaks the law '{law}': .*{detail}"
    ):
        check_source(
            lambda: wrong(messages),
            lambda numbers: messages.extend(b"%d" % number for number in numbers),
            timeout=0.5,
            **how.get(law, {}),
        )


class Rows:
    """A correct sink of a list; the wrong ones derive from it."""

    def __init__(self, rows):
        self.rows = rows

    def open(self, position):
        if position is None and self.rows:
            raise SinkError("there are rows of an earlier pipeline")
        del self.rows[position or 0 :]

    def write(self, delivery):
        self.rows.extend(plain_rows(delivery))

    def flush(self):
        return len(self.rows)

    def close(self):
        pass


class DoublesOnReplay(Rows):
    def open(self, position):
        if position is None:
            super().open(position)


class LosesOnReopening(Rows):
    def open(self, position):
        super().open(position and position - 1)


class LosesWhatComesAgain(Rows):
    """It treats every batch that it has seen as already written."""

    seen = ()

    def write(self, delivery):
        if delivery.batch not in type(self).seen:
            super().write(delivery)
        type(self).seen += (delivery.batch,)


class FlushesLater(Rows):
    waiting = ()

    def write(self, delivery):
        self.waiting += (delivery,)

    def flush(self):
        for delivery in self.waiting[:-1]:
            super().write(delivery)
        self.waiting = self.waiting[-1:]
        return super().flush()


class WritesBackwards(Rows):
    def write(self, delivery):
        self.rows.extend(plain_rows(delivery)[::-1])


class PositionsAreBytes(Rows):
    def flush(self):
        return b"%d" % super().flush()


class NeedsRows(Rows):
    def write(self, delivery):
        super().write(delivery)
        self.rows[-1] = {**plain_rows(delivery)[-1]}


class WritesFloats(Rows):
    def write(self, delivery):
        for row in plain_rows(delivery):
            self.rows.append({**row, "cluster": float(row["cluster"]) + 1e-9})


class KnowsNoNone(Rows):
    def write(self, delivery):
        for row in plain_rows(delivery):
            self.rows.append({**row, "name": str(row["name"])})


class CannotBeClosedFirst(Rows):
    is_open = False

    def open(self, position):
        super().open(position)
        self.is_open = True

    def close(self):
        if not self.is_open:
            raise StreamError("it is not open")


class TakesWhatIsThere(Rows):
    def open(self, position):
        del self.rows[len(self.rows) if position is None else position :]


@pytest.mark.parametrize(
    ("wrong", "law", "detail"),
    [
        (DoublesOnReplay, "replay", "row 0 of batch 3 exists 3 times after a replay from"),
        (LosesOnReopening, "replay", "row 2 of batch 3 exists 0 times after it was opened"),
        (LosesWhatComesAgain, "replay", "row 0 of batch 3 exists 0 times after a replay from"),
        (
            FlushesLater,
            "exactly_once",
            "row 0 of batch 0 exists 0 times after the flush of batch 0",
        ),
        (WritesBackwards, "exactly_once", r"the order of rows is \[\(0, 2\), \(0, 1\)"),
        (PositionsAreBytes, "exactly_once", "flush returned b'0', which is not JSON"),
        (NeedsRows, "empty_batch", "it raised IndexError"),
        (WritesFloats, "exactly_once", "'cluster' is 1e-09 instead of 0"),
        (KnowsNoNone, "values", "'name' is 'None' instead of None"),
        (CannotBeClosedFirst, "reopen", r"it raised StreamError \(it is not open\)"),
        (TakesWhatIsThere, "existing_rows", "no SinkError was raised when a place with rows"),
    ],
)
def test_the_error_names_the_law_that_a_sink_breaks(wrong, law, detail):
    rows = []
    with pytest.raises(
        AssertionError, match=f"^{wrong.__name__} breaks the law '{law}': .*{detail}"
    ):
        check_sink(lambda: wrong(rows), lambda: rows)


def test_existing_rows_are_treated_as_declared():
    rows = []
    check_sink(lambda: Rows(rows), lambda: rows)
    for existing, detail in (("deleted", "SinkError was raised"), ("kept", "SinkError was raised")):
        rows.clear()
        with pytest.raises(AssertionError, match=f"'existing_rows': {detail}"):
            check_sink(lambda: Rows(rows), lambda: rows, existing=existing)
    for existing in ("deleted", "matched"):
        rows.clear()
        with pytest.raises(
            AssertionError, match=r"'existing_rows': row 0 of batch 0 exists \d times"
        ):
            check_sink(lambda: TakesWhatIsThere(rows), lambda: rows, existing=existing)
    rows.clear()
    check_sink(lambda: TakesWhatIsThere(rows), lambda: rows, existing="kept")


def test_correct_implementations_pass_each_law_alone():
    for law in SOURCE_LAWS:
        messages = []
        check_source(
            lambda messages=messages: Numbers(messages),
            lambda numbers, messages=messages: messages.extend(b"%d" % n for n in numbers),
            laws=[law],
        )
    for law in SINK_LAWS:
        rows = []
        check_sink(lambda rows=rows: Rows(rows), lambda rows=rows: rows, laws=[law])


@pytest.mark.parametrize(
    ("check", "detail"),
    [
        (lambda: check_source(list, list, n_rows=3), "at least four rows"),
        (lambda: check_source(list, list, laws=["gravity"]), "there is no law 'gravity'"),
        (lambda: check_sink(list, list, existing="sold"), "existing is 'sold'"),
    ],
)
def test_invalid_arguments_are_rejected(check, detail):
    with pytest.raises(InputError, match=detail):
        check()
