"""Starts a query on a busy machine. Used by tests, and by the jobs in processes of their own."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql.streaming import StreamingQuery

_TRIES = 10


def patiently(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query, and wait until its source's process is there.

    Spark gives that process ten seconds, which is too short on a busy machine: then it is started
    again. Raises what else ends the query.
    """
    for _ in range(_TRIES):
        query = start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(0.05)
        failed = query.exception()
        if failed is None:
            return query
        if "Python worker failed to connect back" not in str(failed):
            raise failed
        print("not started:", query.id, flush=True)
    raise TimeoutError("the source's process did not start")
