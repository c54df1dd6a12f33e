"""Pipelines on a Ray cluster: reading replicas, and models by key on many machines."""

from scstream.stream.ray.pool import RayPool
from scstream.stream.ray.replicas import Replicas

__all__ = ["RayPool", "Replicas"]
