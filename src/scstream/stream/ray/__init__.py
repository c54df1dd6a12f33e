"""Pipelines on a Ray cluster: reading replicas, and models by key on many machines."""
