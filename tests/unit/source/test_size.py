"""How large batches become, beside models of what a batch costs."""

import pytest

from spark_azqueue.source.batches.batch import LARGEST, SMALLEST, TARGET_S, BatchSize


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


def test_batches_double_while_they_are_short():
    found = sizes(lambda n, t: 0.1 + n * 1e-5)

    assert found[:4] == [4096, 8192, 16_384, 32_768]
    assert set(found[4:]) == {LARGEST}


def test_they_stay_near_the_target_when_time_grows_with_rows():
    takes = lambda n, t: 0.3 + n * 1e-4  # noqa: E731

    assert set(sizes(takes)[4:]) == {8192}
    assert TARGET_S / 2 <= takes(8192, 0) <= TARGET_S


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


def test_a_trickle_keeps_batches_as_they_come_and_the_next_backlog_begins_small():
    found = sizes(lambda n, t: 0.1 + n * 1e-5, backlog=lambda batch: batch % 10 < 5)

    assert found[5:10] == [10] * 5
    assert found[10] <= 2 * SMALLEST


def test_a_new_run_begins_with_the_smallest():
    assert BatchSize(None).most == SMALLEST


def test_an_option_fixes_the_size():
    size = BatchSize(100)

    for now in range(10):
        size.batch_ended(now)
        size.batch_began(100, now)

    assert size.most == 100


def test_to_ask_again_changes_nothing():
    size = BatchSize(None)
    size.batch_began(SMALLEST, 0.0)

    size.batch_ended(0.1)
    size.batch_ended(0.2)

    assert size.most == 2 * SMALLEST


def test_a_batch_that_was_built_before_the_size_grew_is_full_by_the_size_of_then():
    size, now, found = BatchSize(None), 0.0, []
    ahead = size.most
    for _ in range(12):
        size.batch_ended(now)
        messages, ahead = ahead, size.most  # the next one is built while this one runs
        found.append(messages)
        size.batch_began(messages, now, messages)
        now += 0.1 + messages * 1e-5

    assert found == sorted(found)
    assert found[-1] == LARGEST
