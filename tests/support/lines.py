"""What lines of Spark do differently, for tests that run on each of them."""

from __future__ import annotations

from collections.abc import Callable

import pyspark
import pytest
from processes import PATIENCE_S
from pyspark.sql.streaming import StreamingQuery

LINE = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

TRUE_AVAILABLE_NOW = LINE >= (4, 2)
"""One run reads and deletes all that was there; before, it reads one batch (docs/versions.md)."""

needs_true_available_now = pytest.mark.skipif(
    not TRUE_AVAILABLE_NOW,
    reason="docs/versions.md: on 4.0 and 4.1 an availableNow run is one batch",
)

needs_named_sources = pytest.mark.skipif(
    LINE < (4, 2), reason="docs/versions.md: named sources in a union begin with 4.2"
)

needs_reports_when_idle = pytest.mark.skipif(
    LINE < (4, 2),
    reason="docs/metrics.md: on 4.0 and 4.1 the report is as of the start of the last batch",
)


def read_all(start: Callable[[], StreamingQuery]) -> None:
    """Run an availableNow query until it has read and deleted all that is there. Raises its error.

    That is one run; on 4.0 and 4.1 as many as it takes, the last of them without a batch.
    """
    while True:
        query = start()
        assert query.awaitTermination(PATIENCE_S), "the query did not end by itself"
        progress = query.recentProgress
        if TRUE_AVAILABLE_NOW or not any("addBatch" in each["durationMs"] for each in progress):
            return
