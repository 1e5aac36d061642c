"""A query that is started again after each failure, as a job scheduler would."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from processes import PATIENCE_S, wait_for
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.testing import FakeQueueService


def restarted_until_empty(
    start: Callable[[], StreamingQuery],
    fake: FakeQueueService,
    queue: str,
    *,
    failing_with: str,
    ends: bool = True,
) -> int:
    """Run a query until its queue is empty. Returns how many runs failed.

    failing_with: a text of the only error that a run may end with. ends: with availableNow.
    """
    failures = 0
    for _ in range(40):
        query = start()
        if not ends:
            wait_for(
                lambda query=query: not (query.isActive and fake.count(queue)),
                "the query to fail, or an empty queue",
            )
            query.stop()
        with contextlib.suppress(StreamingQueryException):
            assert query.awaitTermination(PATIENCE_S), "the query did not end by itself"
        if error := query.exception():
            assert failing_with in str(error)
            failures += 1
        elif not fake.count(queue):
            return failures
        else:
            fake.clock.advance(301)  # what a hurried end could not give back comes by itself
    raise AssertionError("the queue does not become empty")
