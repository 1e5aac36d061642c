"""Azure Storage Queues for Apache Spark: `format("azqueue")`.

Users import all names from this package, and the test kit from `spark_azqueue.testing`. A name is
imported on first use. So names that need no Spark can be used without pyspark, and importing this
package does not load pyspark or pyarrow.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from .errors.interpreter import is_in_doubt
from .version import __version__

if TYPE_CHECKING:
    from .commands.doctor.redaction import redaction_conf as redaction_conf
    from .commands.watching import queue_watch as queue_watch
    from .datasource import AzQueueDataSource as AzQueueDataSource
    from .errors import (
        AccessDenied as AccessDenied,
        AzQueueError as AzQueueError,
        CheckpointMismatch as CheckpointMismatch,
        FunctionFailed as FunctionFailed,
        InvalidOption as InvalidOption,
        InvalidRow as InvalidRow,
        InvalidSchema as InvalidSchema,
        LateSegment as LateSegment,
        LoadConflict as LoadConflict,
        LogConflict as LogConflict,
        LogDamaged as LogDamaged,
        LogUnavailable as LogUnavailable,
        LostBlob as LostBlob,
        LostSegment as LostSegment,
        NotDrained as NotDrained,
        QueueNotFound as QueueNotFound,
        RowsLost as RowsLost,
        ServiceError as ServiceError,
        ServiceUnavailable as ServiceUnavailable,
        StaleReceipt as StaleReceipt,
        TooManyPoison as TooManyPoison,
        TransactionConflict as TransactionConflict,
        TransactionExpired as TransactionExpired,
        TransactionUnknown as TransactionUnknown,
        UndecodableBody as UndecodableBody,
    )
    from .errors.explanation import (
        Explanation as Explanation,
        explain as explain,
    )
    from .files.new_files import read_new_files as read_new_files
    from .files.events.blobs import blob_events as blob_events
    from .files.events.parsing import (
        bounded_json as bounded_json,
        parsed_events as parsed_events,
    )
    from .metrics.listener import AzQueueListener as AzQueueListener
    from .metrics.opentelemetry import export_to_opentelemetry as export_to_opentelemetry
    from .metrics.prometheus import export_to_prometheus as export_to_prometheus
    from .rows.duplicates import without_duplicates as without_duplicates
    from .rows.packing.dataframes import (
        pack as pack,
        unpack as unpack,
    )
    from .rows.try_apply.trying import (
        SplitRows as SplitRows,
        dead_letters as dead_letters,
        split_apply as split_apply,
        try_apply as try_apply,
    )
    from .running.draining import (
        DrainResult as DrainResult,
        drain as drain,
    )
    from .running.ingest import IngestJob as IngestJob
    from .running.supervisor import (
        RunResult as RunResult,
        run_until_done as run_until_done,
    )
    from .sink.settlement import (
        DeadLetter as DeadLetter,
        Retry as Retry,
        Settled as Settled,
        backoff as backoff,
        settle as settle,
    )
    from .sink.transactions import transaction_reader as transaction_reader

NAMES = {
    "commands.doctor.redaction": ("redaction_conf",),
    "commands.watching": ("queue_watch",),
    "datasource": ("AzQueueDataSource",),
    "errors": (
        "AccessDenied",
        "AzQueueError",
        "CheckpointMismatch",
        "FunctionFailed",
        "InvalidOption",
        "InvalidRow",
        "InvalidSchema",
        "LateSegment",
        "LoadConflict",
        "LogConflict",
        "LogDamaged",
        "LogUnavailable",
        "LostBlob",
        "LostSegment",
        "NotDrained",
        "QueueNotFound",
        "RowsLost",
        "ServiceError",
        "ServiceUnavailable",
        "StaleReceipt",
        "TooManyPoison",
        "TransactionConflict",
        "TransactionExpired",
        "TransactionUnknown",
        "UndecodableBody",
    ),
    "errors.explanation": ("Explanation", "explain"),
    "files.new_files": ("read_new_files",),
    "files.events.blobs": ("blob_events",),
    "files.events.parsing": ("bounded_json", "parsed_events"),
    "metrics.listener": ("AzQueueListener",),
    "metrics.opentelemetry": ("export_to_opentelemetry",),
    "metrics.prometheus": ("export_to_prometheus",),
    "rows.duplicates": ("without_duplicates",),
    "rows.packing.dataframes": ("pack", "unpack"),
    "rows.try_apply.trying": ("SplitRows", "dead_letters", "split_apply", "try_apply"),
    "running.draining": ("DrainResult", "drain"),
    "running.ingest": ("IngestJob",),
    "running.supervisor": ("RunResult", "run_until_done"),
    "sink.settlement": ("DeadLetter", "Retry", "Settled", "backoff", "settle"),
    "sink.transactions": ("transaction_reader",),
}
"""The public names, by their module."""
_HOMES = {name: home for home, names in NAMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOMES)]

# Spark's own error says only that there is no such format: docs/decisions/0039-another-python.md
if is_in_doubt(os.environ, sys.modules):
    from .commands.doctor.installation import warn_of_another_python

    warn_of_another_python()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
