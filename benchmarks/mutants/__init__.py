"""Mutation score: change one thing in a module, and see whether a test fails.

``python -m benchmarks.mutants`` tries the mutants that are not in results/mutants.jsonl yet, and
writes results/mutants.md.
"""
