"""What `scstream top` shows of a pipeline and of a service, on every size of screen."""

import contextlib
import fcntl
import json
import math
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from scstream.cli.service_client import ServiceMonitor, parse_metrics
from scstream.cli.summary import CheckpointMonitor, ClusterSummary, History, Summary
from scstream.cli.top_frame import View, frame
from scstream.core.state import Event
from scstream.errors import StreamError
from tests.cli.inside import json_output, refused, sound
from tests.cli.shell import COMMAND, SECONDS, environment, running
from tests.cli.test_screen import COLOUR

CLUSTERS = {
    "version": 7,
    "batch": 300,
    "total": 2,
    "clusters": [
        {"id": 4, "share": 0.75, "weight": 750.0, "last_seen": 299.0},
        {"id": 9, "share": 0.25, "weight": 250.0, "last_seen": 290.0},
    ],
}
EVENTS = {
    "events": [{"kind": "born", "time": 120.0, "id": 9, "weight": 12.0, "other": None}],
}


def summary(n: int, *, shares: dict[int, float], **more: Any) -> Summary:
    clusters = tuple(ClusterSummary(id, share, 100 * share, 0.0) for id, share in shares.items())
    events = (Event("born", 1.0, 3, 12.0), Event("split", 5.0, 3, 80.0, other=7))
    known = {"rows": 1000 * n, "novelty": 0.01 * n, "log_density": -3.0 - n, "job": "demo"}
    return Summary(
        at=10.0 * n,
        learned=10.0 * n,
        version=n,
        batch=n,
        n_clusters=len(shares),
        clusters=clusters,
        events=events * 20,
        **{**known, **more},
    )


def history(*, n: int = 50, k: int = 30) -> History:
    seen = History()
    for i in range(n):
        weights = [1 / (rank + 1 + i * (rank == 2) / 20) for rank in range(k)]
        seen.summaries.append(
            summary(i, shares={r: w / sum(weights) for r, w in enumerate(weights)})
        )
    return seen


@pytest.mark.parametrize("keys", [True, False])
def test_a_frame_fits_every_screen(keys: bool) -> None:
    seen = history()
    for width in (20, 40, 79, 80, 100, 109, 110, 120, 200):
        for height in (4, 8, 12, 16, 20, 24, 40, 60):
            lines = frame(seen, View("state", 500.0, width, height, shows_keys=keys))
            assert len(lines) <= height
            assert max(line.cell_len for line in lines) <= width, (width, height)


def test_eighty_columns_and_24_lines_show_all_that_matters() -> None:
    lines = [line.plain for line in frame(history(), View("state", 493.0, 80, 24))]
    text = "\n".join(lines)
    assert lines[0].startswith("scstream top  demo")
    assert lines[1] == "49,000 rows   100/s   batch 49   K 30"
    assert lines[2] == "version 49, learned 3.0 s ago, usually every 10 s"
    for word in ("clusters", "novelty", "log density", "rows/s", "change", "others", "split"):
        assert word in text
    assert lines[-1] == "q quit   space pause"
    assert len(lines) == 24


def test_arrows_show_changes_without_colour() -> None:
    seen = History()
    seen.summaries.append(summary(1, shares={1: 0.5, 2: 0.3, 3: 0.2}))
    seen.summaries.append(summary(2, shares={1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1}))
    assert [seen.changes[id] for id in (2, 3)] == [0.0, 0.0]
    assert seen.changes[1] == pytest.approx(-0.1)
    assert seen.changes[4] is None
    lines = {
        line.plain.split()[0]: line.plain
        for line in frame(seen, View("state", 20.0, 80, 40))
        if "%  " in line.plain
    }
    assert "-10.0 ▼" in lines["1"]
    assert "new +" in lines["4"]


def test_a_missing_checkpoint_is_late() -> None:
    assert "late" not in frame(history(), View("state", 500.0, 80, 24))[2].plain
    assert "late: is it running?" in frame(history(), View("state", 900.0, 80, 24))[2].plain


def test_an_empty_folder_is_waited_for() -> None:
    lines = frame(History(), View("state", 0.0, 80, 24))
    assert lines[1].plain == "waiting for the first checkpoint ..."


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.cli.shell import PIPELINE, write_rows

    folder = tmp_path_factory.mktemp("ran")
    write_rows(folder / "rows.csv", 2050)
    (folder / "pipeline.toml").write_text(PIPELINE)
    sound("run", "pipeline.toml", folder=folder)
    return folder


def test_one_frame_of_a_folder(ran: Path) -> None:
    before = {path: path.read_bytes() for path in (ran / "state").glob("version-*")}
    text = sound("top", "state", folder=ran, COLUMNS="100")
    assert text.startswith("scstream top  demo")
    assert "2,050 rows" in text
    assert "K 4" in text
    assert "\x1b" not in text
    assert {path: path.read_bytes() for path in (ran / "state").glob("version-*")} == before


def test_json_of_a_folder(ran: Path) -> None:
    found = json_output("top", "state", "--once", folder=ran)
    assert found["rows"] == 2050
    assert found["job"] == "demo"
    assert found["n_clusters"] == len(found["clusters"]) == 4
    assert 0.99 < sum(each["share"] for each in found["clusters"]) <= 1.0  # of no cluster: the rest
    assert set(found["changes"]) == {str(each["id"]) for each in found["clusters"]}


def test_existing_checkpoints_are_the_past(ran: Path) -> None:
    past = list(CheckpointMonitor(str(ran / "state")).past())
    assert [each.batch for each in past] == sorted(each.batch for each in past)
    assert len(past) == 3
    assert past[-1].rows == 2050
    assert past[-1].novelty == 0.0
    assert math.isfinite(past[-1].log_density)


def test_new_checkpoints_are_seen_once(folder: Path) -> None:
    sound("run", "pipeline.toml", "--until", 10, folder=folder)
    kept = CheckpointMonitor(str(folder / "state"))
    assert [each.batch for each in kept.past()][-1] == 10
    assert kept.poll() is None
    sound("run", "pipeline.toml", "--resume", folder=folder)
    seen = kept.poll()
    assert seen is not None
    assert (seen.batch, seen.rows) == (21, 2050)
    assert kept.poll() is None


def test_places_without_checkpoints_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "there is no folder 'none'" in refused("top", "none", folder=tmp_path)
    for words in (["empty"], ["empty", "--once"]):
        assert "there is no valid checkpoint with a model in empty yet" in refused(
            "top", *words, folder=tmp_path, code=1
        )


class Stub(BaseHTTPRequestHandler):
    """Answers as a service does; its token is hunter2."""

    bodies: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        status, body = self.bodies.get(self.path.split("?")[0], (404, b"{}"))
        if self.headers["Authorization"] not in ("Bearer hunter2",):
            status, body = 401, b'{"error": "NoToken", "detail": "a token is needed."}'
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        pass


@contextlib.contextmanager
def served(**bodies: bytes | tuple[int, bytes]) -> Iterator[str]:
    whole = {f"/{name}": b if isinstance(b, tuple) else (200, b) for name, b in bodies.items()}
    server = HTTPServer(("127.0.0.1", 0), type("Own", (Stub,), {"bodies": whole}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def bodies(predicted: int = 0, novel: int = 0) -> dict[str, Any]:
    metrics = (
        f"# HELP x rows\nscstream_predicted_rows_total {predicted}.0\n"
        f"scstream_predicted_novel_rows_total {novel}.0\nscstream_model_timestamp_seconds 1e9\n"
        'scstream_requests_total{route="/predict",status="2xx"} 5.0\n'
    )
    return {
        "clusters": json.dumps(CLUSTERS).encode(),
        "events": json.dumps(EVENTS).encode(),
        "metrics": metrics.encode(),
    }


def test_a_service_receives_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2\n")
    with served(**bodies(predicted=500, novel=25)) as url:
        found = json_output("top", url, "--once", "--token-file", "token", folder=tmp_path)
        assert found["version"] == 7
        assert found["predicted"] == 500
        assert found["novelty"] == 0.05
        assert [each["quiet"] for each in found["clusters"]] == [0.0, 9.0]
        assert found["events"][0]["kind"] == "born"
        text = sound("top", url, folder=tmp_path, SCSTREAM_TOKEN="hunter2")
        assert "predicted 500" in text
        detail = refused("top", url, folder=tmp_path, code=1)
        assert detail.endswith(
            "answers 401: a token is needed. Give a token with --token-file or SCSTREAM_TOKEN."
        )


def test_novelty_is_measured_since_the_last_poll() -> None:
    with served(**bodies(predicted=500, novel=25)) as url:
        service = ServiceMonitor(url, token="hunter2")
        assert service.poll().novelty == 0.05
        assert math.isnan(service.poll().novelty)


def test_an_unreachable_service_is_one_sentence(tmp_path: Path) -> None:
    detail = refused("top", "http://127.0.0.1:9", folder=tmp_path, code=1)
    assert detail.startswith("http://127.0.0.1:9 does not answer: Connection refused")
    assert "is not the address of a service" in refused("top", "http://", folder=tmp_path)
    with served(clusters=b"<html>", events=b"<html>") as url:
        detail = refused("top", url, folder=tmp_path, code=1, SCSTREAM_TOKEN="hunter2")
        assert detail.endswith("does not answer as scstream serve does; check the address.")
    with (
        served(clusters=(503, b'{"detail": "no model yet."}')) as url,
        pytest.raises(StreamError, match="answers 503: no model yet"),
    ):
        ServiceMonitor(url, token="hunter2").poll()


def test_metrics_with_labels_and_invalid_lines_are_ignored() -> None:
    assert parse_metrics('a 1\nb{x="1"} 2\nc\nd NaN\ne 1e3 1700000000\n') == {"a": 1.0, "e": 1000.0}


def test_a_real_service(ran: Path) -> None:
    with running("serve", "state", "--port", 0, folder=ran) as service:
        url = service.wait_for("serving")["url"]
        found, own = (
            json_output("top", url, "--once", folder=ran),
            json_output("top", "state", "--once", folder=ran),
        )
        for name in ("version", "batch", "n_clusters", "clusters"):
            assert found[name] == own[name], name
        assert [each["id"] for each in found["events"]] == [each["id"] for each in own["events"]]
        assert found["learned"] == own["learned"]


def test_the_screen_is_redrawn_and_restored(ran: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ran)
        own = environment(TERM="xterm-256color")
        del own["COLUMNS"]
        os.execve(COMMAND[0], [*COMMAND, "top", "state", "--every", "0.2"], own)
    resize(terminal, 24, 80)
    text, end, left = "", time.monotonic() + SECONDS, ["started", "resized", "paused", "quit"]
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                text += os.read(terminal, 65536).decode(errors="replace")
            if left[:1] == ["started"] and "space pause" in text:
                resize(terminal, 40, 130)
                left.pop(0)
                text = text[: text.index("\x1b[?1049h") + 8]
            elif left[:1] == ["resized"] and text.count("\n") > 45:  # the taller frame is drawn
                os.write(terminal, b" ")
                left.pop(0)
            elif left[:1] == ["paused"] and re.search(r"state  \x1b\S*paused", text):
                os.write(terminal, b"q")
                left.pop(0)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, text
    assert left == ["quit"]
    assert "\x1b[?1049h" in text  # the other screen, and back from it
    assert "\x1b[?1049l" in text
    assert "\x1b[?25h" in text
    assert COLOUR.search(text) or re.search(r"\x1b\[[0-9;]*38;", text)


def resize(terminal: int, height: int, width: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


def test_json_lines_are_printed_until_an_interrupt(ran: Path) -> None:
    command = [*COMMAND, "top", "state", "--json", "--every", "0.1"]
    with subprocess.Popen(
        command, cwd=ran, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as watching:
        assert watching.stdout is not None
        assert [json.loads(watching.stdout.readline())["rows"] for _ in range(3)] == [2050] * 3
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=SECONDS) == 0
