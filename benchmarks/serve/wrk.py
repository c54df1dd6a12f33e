"""Load by `wrk` on loopback, and what it counted."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local file = io.open({body!r}, "rb")
wrk.body = file:read("*a")
file:close()
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\\n{{"requests": %d, "seconds": %f, "p50": %f, "p99": %f, "most": %f, "errors": %d}}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    latency.max, e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True)
class Load:
    """What became of the requests; latencies in microseconds."""

    requests: int
    seconds: float
    p50: float
    p99: float
    most: float
    errors: int

    @property
    def rate(self) -> float:
        """Requests in a second."""
        return self.requests / self.seconds


def wrk(url: str, body: bytes, *, seconds: float, connections: int) -> Load:
    """Post a body over and over."""
    with tempfile.TemporaryDirectory() as folder:
        content, script = Path(folder, "body"), Path(folder, "post.lua")
        content.write_bytes(body)
        script.write_text(_SCRIPT.format(body=str(content)))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--timeout", "30s"]
        done = subprocess.run(
            [*command, "-s", str(script), url], check=True, capture_output=True, text=True
        )
    return Load(**json.loads(done.stdout.strip().splitlines()[-1]))
