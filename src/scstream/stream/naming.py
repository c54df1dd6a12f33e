"""Names for the clusters of a pipeline: answers of a naming hook become edits of the pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from scstream.errors import InputError
from scstream.model import Model
from scstream.observe.naming import AUTHOR, Ask, Namer, ask_command, ask_server
from scstream.stream.batcher import SourceBatch
from scstream.stream.edit_queue import EditRequest, submit
from scstream.stream.processor import Learned, OneModel
from scstream.stream.runner import Pipeline


@contextmanager
def naming(pipeline: Pipeline, options: Mapping[str, Any]) -> Iterator[None]:
    """Name new clusters of a pipeline by the section `[naming]`, if there is one.

    An answer is queued as an edit: it is applied between two batches, and after a crash before the
    same batch again.
    """
    if not options:
        yield
        return
    processor = pipeline.processor
    if not isinstance(processor, OneModel):
        raise InputError("naming needs one model for all rows; remove [naming] or schema.key.")
    store, before = pipeline.checkpoint_log.store, pipeline.on_batch

    def answer(id_: int, name: str) -> None:
        model = processor.model
        known = isinstance(model, Model) and id_ in model.names
        if not isinstance(model, Model) or namer.may_name(model.names, id_):
            request = EditRequest(
                "name", id_, name=name, author=AUTHOR, hold=known, time=time.time()
            )
            submit(store, request)

    def on_batch(source_batch: SourceBatch, learned: Learned) -> None:
        before(source_batch, learned)
        if isinstance(processor.model, Model):
            namer.observe(processor.model, learned.info.events)

    kept = {name: options[name] for name in ("attempts", "changed") if name in options}
    with Namer(read_ask(options), answer, **kept) as namer:
        pipeline.on_batch = on_batch
        yield


def read_ask(options: Mapping[str, Any]) -> Ask:
    """Return the function that asks, by the settings of the section `[naming]`."""
    timeout = options.get("timeout", 30.0)
    if not (isinstance(timeout, int | float) and timeout > 0):
        raise InputError(f"naming.timeout must be a positive number, got {timeout!r}.")
    if ("url" in options) == ("command" in options):
        raise InputError("naming needs either url, a server to ask, or command, a program to run.")
    if "command" in options:
        command = options["command"]
        if not (isinstance(command, list) and command and all(type(c) is str for c in command)):
            raise InputError("naming.command must be a list of texts: the program, its arguments.")
        return ask_command(command, timeout=timeout)
    token, model = options.get("token"), options.get("model")
    return ask_server(options["url"], token=token, model=model, timeout=timeout)
