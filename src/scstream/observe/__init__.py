"""Metrics, traces and alerts of pipelines and services. Nothing here changes a label."""
