"""HTTP: one writer, many readers over an immutable state."""
