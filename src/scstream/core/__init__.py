"""How clusters change: read `step`, then `sweep`."""
