"""Evidence: every number of the docs comes from a command in this package."""
