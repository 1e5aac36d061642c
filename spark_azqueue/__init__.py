"""Azure Storage Queues for Apache Spark: `format("azqueue")`.

Names are loaded when they are first used, so that the rooms without Spark (`spark_azqueue.offsets`,
`spark_azqueue.testing`, …) work where pyspark is not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .datasource import AzQueueDataSource

__all__ = ["AzQueueDataSource", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "AzQueueDataSource":
        from .datasource import AzQueueDataSource

        return AzQueueDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
