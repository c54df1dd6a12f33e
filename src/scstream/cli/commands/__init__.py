"""Options and help of the commands, one file each.

These modules import nothing heavy, so that `scstream --help` is fast.
"""
