"""The paper's experiments and the peers, side by side: ``python -m benchmarks paper``.

This file imports nothing: workers load it in interpreters that have little more than numpy.
"""
