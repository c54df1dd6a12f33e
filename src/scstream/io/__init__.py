"""Doors: rows, tables and choices come in, model files go out and come back."""
