"""Adapters: one file per package, none of them imported before a worker needs it."""
