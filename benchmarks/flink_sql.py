"""Run a file of SQL in a Flink of this process: `python flink_sql.py FILE JAR [OPTION=VALUE ...]`.

It runs with the Python of an environment that has apache-flink, not with that of scstream.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any


def main(file: str, jar: str, *options: str) -> None:
    from pyflink.table import EnvironmentSettings, TableEnvironment

    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    config, result = env.get_config(), None
    config.set("pipeline.jars", Path(jar).resolve().as_uri())
    for option in options:
        config.set(*option.split("=", 1))
    text = re.sub(r"^--.*$", "", Path(file).read_text(encoding="utf-8"), flags=re.MULTILINE)
    for statement in filter(str.strip, text.split(";")):
        setting: Any = re.fullmatch(r"\s*SET '(.*)' = '(.*)'\s*", statement)
        if setting:
            config.set(*setting.groups())
        else:
            result = env.execute_sql(statement)
    if result is not None:
        result.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
