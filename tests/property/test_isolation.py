"""With isolationLevel=readCommitted what a transaction abandoned gives no row, in any order.

The real Consumer over a model queue, with and without a write-ahead log. A transactional sink puts
each message hidden until its last second, and shows it if its transaction committed.
"""

from __future__ import annotations

import pytest
from budget import EXAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world.logged import LoggedSpark
from world.service import SOURCE, Service
from world.spark import Spark

pytestmark = pytest.mark.usefixtures("simulated_time")

TTL = 30


def sent(service: Service, *, abandoned: int, shown: int) -> set[str]:
    """What a sink put in one moment; returns the texts of the transaction that committed."""
    queue, now = service.account.queue(SOURCE), service.clock.now()
    put = {
        text: queue.put(text, now=now, visibility_delay=TTL - 1, ttl=TTL)
        for text in [f"a{now}-{n}" for n in range(abandoned)]
        + [f"s{now}-{n}" for n in range(shown)]
    }
    texts = {text for text in put if text.startswith("s")}
    for text in texts:
        queue.update(put[text].id, put[text].receipt, now=now, visibility=0)
    return texts


@given(
    waves=st.lists(
        st.tuples(
            st.floats(0, TTL / 2),
            st.integers(0, 8),
            st.integers(0, 8),
            st.sampled_from(["", "", "", "after_sink"]),
        ),
        min_size=1,
        max_size=6,
    ),
    with_log=st.booleans(),
    bare=st.booleans(),
    visibility_s=st.sampled_from([1, 3]),
    most=st.integers(1, 20),
)
@settings(
    max_examples=2 * EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_what_was_abandoned_gives_no_row_and_what_was_shown_gives_one(
    waves: list[tuple[float, int, int, str]],
    with_log: bool,
    bare: bool,
    visibility_s: int,
    most: int,
) -> None:
    service = Service()
    service.account.create(SOURCE)
    made = LoggedSpark if with_log else Spark
    options = {
        "isolationLevel": "readCommitted",
        "visibilityTimeout": str(visibility_s),
        "maxMessagesPerTrigger": str(most),
    }
    spark = made(service, options, bare=bare)
    committed: set[str] = set()

    def poll(seconds: float) -> None:
        end = service.clock.now() + seconds
        while (now := service.clock.now()) < end:
            spark.trigger()
            service.pass_time(min(0.3, max(end - now, 0.001)))

    for pause, abandoned, shown, dies in waves:
        committed |= sent(service, abandoned=abandoned, shown=shown)
        spark.trigger(dies=dies)
        poll(pause)
    poll(TTL + 2)

    if isinstance(spark, LoggedSpark):
        assert {text for _, text in spark.sink.rows()} == committed
    else:
        assert set(spark.committed_texts) == committed
