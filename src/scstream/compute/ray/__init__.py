"""Passes over rows on the workers of a Ray cluster; needs the extra `ray`."""

from scstream.compute.ray.executor import RayExecutor

__all__ = ["RayExecutor"]
