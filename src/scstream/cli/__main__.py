"""`python -m scstream.cli` is `scstream`."""

from scstream.cli import main

main()
