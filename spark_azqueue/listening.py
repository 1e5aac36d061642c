"""An older import path: `from spark_azqueue import AzQueueListener` is today's."""

from __future__ import annotations

from .metrics.listener import AzQueueListener

__all__ = ["AzQueueListener"]
