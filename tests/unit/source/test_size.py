"""How large batches become, beside models of what a batch costs."""

import pytest

from spark_azqueue.source.batches.batch import LARGEST, SMALLEST, BatchSize


def sizes(takes, count=40, backlog=lambda batch: True):
    """The sizes of so many batches, if one of n messages that begins at t takes `takes(n, t)`."""
    size, now, found = BatchSize(None), 0.0, []
    for batch in range(count):
        size.batch_ended(now)
        messages = size.most if backlog(batch) else 10
        found.append(messages)
        size.batch_began(messages, now)
        now += takes(messages, now)
    return found


def test_a_slow_sink_keeps_the_smallest_batches_but_for_a_try_now_and_then():
    found = sizes(lambda n, t: n * 1e-3)

    assert set(found) == {SMALLEST, 2 * SMALLEST}
    assert found.count(2 * SMALLEST) <= 3


@pytest.mark.parametrize("interval", [5, 60])
def test_a_trigger_that_waits_gets_all_it_may(interval):
    found = sizes(lambda n, t: max(interval, n * 1e-5))

    assert found[:4] == [4096, 8192, 16_384, 32_768]
    assert set(found[4:]) == {LARGEST}


def test_a_sink_that_becomes_slow_gets_smaller_batches():
    found = sizes(lambda n, t: n * (1e-5 if t < 10 else 1e-3), count=60)

    assert max(found) == LARGEST
    assert found[-8:].count(SMALLEST) >= 7
