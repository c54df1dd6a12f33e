"""Jars of servers that tests start, copied once from Maven Central into the folder `build`."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import tempfile
from pathlib import Path

from tests.servers import ServerFailed, program

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"
KAFKA = "4.3.1"
KAFKA_BEFORE = "3.9.2"  # the last series that still had ZooKeeper; here it runs without it


def java() -> str:
    """The program java, of version 17 or later."""
    return program("java", "apt install openjdk-17-jre-headless")


def class_path(name: str, version: str) -> str:
    """The jars of ``NAME.xml`` in a version, as an argument of java."""
    return str(_jars(name, version) / "*")


def _jars(name: str, version: str) -> Path:
    """Folder of the jars; one process copies them, others wait."""
    folder = BUILD / f"{name}-{version}"
    if folder.is_dir():
        return folder
    BUILD.mkdir(exist_ok=True)
    with (BUILD / f"{name}-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=BUILD) as place:
                _copy(name, version, Path(place) / "jars")
                (Path(place) / "jars").rename(folder)
    return folder


def _copy(name: str, version: str, folder: Path) -> None:
    """Let Maven check the checksums and copy the jars."""
    done = subprocess.run(
        [
            *(program("mvn", "apt install maven"), "--batch-mode", "--quiet", "--strict-checksums"),
            *("--file", str(HERE / f"{name}.xml"), f"-Djars.version={version}"),
            *("dependency:copy-dependencies", f"-DoutputDirectory={folder}"),
            "-DincludeScope=runtime",
        ],
        capture_output=True,
        check=False,
        env={**os.environ, "MAVEN_OPTS": "-XX:TieredStopAtLevel=1"},
        text=True,
    )
    if done.returncode:
        text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        raise ServerFailed(f"mvn could not copy the jars of {name} {version}:\n{text[-3000:]}")
