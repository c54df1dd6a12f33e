"""Known vulnerabilities in the locked versions, as pip-audit finds them.

python .ci/audit.py           fail on a vulnerability; say so where nobody could be asked
python .ci/audit.py --online  fail also where a package could not be looked up

Only the versions that the lock has for this Python are looked up. pip-audit itself reports success
where its service answers for no package at all, so the answers are counted here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOCKS = ("package", "tools")
FOLDER = Path(__file__).resolve().parents[1] / "requirements"
IGNORED: dict[str, str] = {}  # id of an advisory: why it does not concern us, and until when


def asked(lock: Path) -> list[dict[str, Any]]:
    """What the service says of each package of a lock; empty where it cannot be reached."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
        command += ["--progress-spinner", "off", "--format", "json", "--output", str(report)]
        command += [word for ignored in IGNORED for word in ("--ignore-vuln", ignored)]
        done = subprocess.run(
            [*command, "--requirement", str(lock)], capture_output=True, text=True, check=False
        )
        if report.exists():
            answers: list[dict[str, Any]] = json.loads(report.read_text())["dependencies"]
            return answers
    if "No module named pip_audit" in done.stderr:
        sys.exit("pip-audit is needed; install it: pip install -r requirements/tools.lock")
    sys.stdout.write(f"{lock.name}: {(done.stderr.strip().splitlines() or ['no report'])[-1]}\n")
    return []


def verdict(name: str, answers: list[dict[str, Any]]) -> tuple[list[str], str]:
    """Vulnerabilities in the answers for a lock; and a sentence that says how many there were."""
    found = [
        f"{name}: {answer['name']} {answer['version']} has {flaw['id']}{_mended(flaw)}"
        for answer in answers
        for flaw in answer.get("vulns", [])
    ]
    known = sum("vulns" in answer for answer in answers)
    if not known:
        return found, f"{name} was not audited: no advisory service can be reached from here."
    return found, f"{name}: {known} of {len(answers)} packages looked up, {len(found)} advisories."


def _mended(flaw: dict[str, Any]) -> str:
    versions = flaw.get("fix_versions", [])
    return f", mended in {' and '.join(versions)}" if versions else ", not mended yet"


def main(*words: str) -> None:
    """Audit the locks; end with a sentence for each vulnerability."""
    if words not in ((), ("--online",)):
        sys.exit(__doc__)
    wrong: list[str] = []
    for name in LOCKS:
        answers = asked(FOLDER / f"{name}.lock")
        found, sentence = verdict(f"{name}.lock", answers)
        sys.stdout.write(sentence + "\n")
        wrong += [*found, *(_unknown(answers) if words else ())]
    if wrong:
        sys.exit("\n".join(wrong))


def _unknown(answers: list[dict[str, Any]]) -> Iterator[str]:
    if not answers:
        yield "The audit was asked for, and nobody answered."
    for answer in answers:
        if "vulns" not in answer:
            yield f"{answer['name']} could not be looked up: {answer['skip_reason']}"


if __name__ == "__main__":
    main(*sys.argv[1:])
