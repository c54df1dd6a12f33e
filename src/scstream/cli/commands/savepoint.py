@guarded
def savepoint(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, dashes, underscores.")],
    *,
    sets: Sets = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Keep the newest checkpoint for ever, under a name; the pipeline may run meanwhile."""
    from scstream.cli.checkpoints import save
    from scstream.cli.display import print_json

    kept = save(store(ctx.obj, flags(sets, folder)), name)
    batch = (kept.progress or {}).get("batch")
    if as_json:
        print_json({"savepoint": name, "batch": batch, "bytes": kept.n_bytes})
    else:
        typer.echo(f"savepoint {name}: batch {batch} is next; start from it with --from {name}")
