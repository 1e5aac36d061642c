"""An old import path, kept for compatibility. Use `from spark_azqueue import AzQueueListener`."""

from __future__ import annotations

from .metrics.listener import AzQueueListener

__all__ = ["AzQueueListener"]
