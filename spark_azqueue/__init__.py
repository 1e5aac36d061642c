"""Azure Storage Queues for Apache Spark: `format("azqueue")`.

Names are imported when they are first used, so that modules without need for Spark
(`spark_azqueue.testing`, the doctor and others) work if pyspark is not installed.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from .interpreter import is_in_doubt
from .version import __version__

if TYPE_CHECKING:
    from .datasource import AzQueueDataSource
    from .doctor.redaction import redaction_conf
    from .draining import DrainResult, drain
    from .explanation import explain
    from .metrics.listener import AzQueueListener
    from .settlement import DeadLetter, Retry, Settled, backoff, settle
    from .supervisor import RunResult, run_until_done
    from .transactions import transaction_reader
    from .trying import SplitRows, dead_letters, split_apply, try_apply
    from .watching import queue_watch

__all__ = [
    "AzQueueDataSource",
    "AzQueueListener",
    "DeadLetter",
    "DrainResult",
    "Retry",
    "RunResult",
    "Settled",
    "SplitRows",
    "__version__",
    "backoff",
    "dead_letters",
    "drain",
    "explain",
    "queue_watch",
    "redaction_conf",
    "run_until_done",
    "settle",
    "split_apply",
    "transaction_reader",
    "try_apply",
]

# Spark's own error says only that there is no such format: docs/decisions/0039-another-python.md
if is_in_doubt(os.environ, sys.modules):
    from .doctor.installation import warn_of_another_python

    warn_of_another_python()


def __getattr__(name: str) -> Any:
    if name == "AzQueueDataSource":
        from .datasource import AzQueueDataSource

        return AzQueueDataSource
    if name == "AzQueueListener":
        from .metrics.listener import AzQueueListener

        return AzQueueListener
    if name in ("DrainResult", "drain"):
        from . import draining

        return getattr(draining, name)
    if name == "explain":
        from .explanation import explain

        return explain
    if name in ("DeadLetter", "Retry", "Settled", "backoff", "settle"):
        from . import settlement

        return getattr(settlement, name)
    if name == "queue_watch":
        from .watching import queue_watch

        return queue_watch
    if name == "redaction_conf":
        from .doctor.redaction import redaction_conf

        return redaction_conf
    if name == "transaction_reader":
        from .transactions import transaction_reader

        return transaction_reader
    if name in ("RunResult", "run_until_done"):
        from . import supervisor

        return getattr(supervisor, name)
    if name in ("SplitRows", "dead_letters", "split_apply", "try_apply"):
        from . import trying

        return getattr(trying, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
