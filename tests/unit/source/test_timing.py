"""How long a lease is, and when it is renewed: the arithmetic, row by row."""

import pytest

from spark_azqueue.source.leases.timing import (
    LONGEST_S,
    OBSERVED,
    RENEWED_S,
    SHORTEST_S,
    START_S,
    BatchSizing,
    LeaseLengths,
    Term,
    lease_length,
)


@pytest.mark.parametrize(
    ("times", "doublings", "seconds"),
    [
        ([], 0, START_S),  # nothing observed yet: five minutes
        ([], 1, 2 * START_S),
        ([1.0], 0, SHORTEST_S),  # 4 x 1 s, but never below a minute
        ([30.0], 0, 120),  # 4 x 30 s
        ([30.2], 0, 121),  # whole seconds, rounded up
        ([30.0], 2, 480),  # 4 x 30 s, doubled twice
        ([1.0] * 19 + [100.0], 0, SHORTEST_S),  # the 95th percentile of 20 is the 19th
        ([1.0] * 18 + [100.0] * 2, 0, 400),  # two slow ones in 20 count
        ([2000.0], 0, LONGEST_S),  # longer batches are renewed
        ([], 6, LONGEST_S),
    ],
)
def test_visibility_timeout_auto(times, doublings, seconds):
    assert lease_length(times, doublings) == seconds


def test_an_ordinary_batch_takes_less_than_half_of_its_lease():
    for usual in (20.0, 60.0, 300.0, 800.0):
        lease = lease_length([usual] * OBSERVED, 0)
        assert Term.of(0.0, lease).renew_at > usual


def test_it_grows_at_once_when_a_lease_was_too_short_and_shrinks_after_a_quiet_stretch():
    sizing = BatchSizing()
    for _ in range(OBSERVED):
        sizing = sizing.on_time(30.0)
    assert sizing.visibility_s() == 120

    sizing = sizing.too_late(30.0)
    assert sizing.visibility_s() == 240
    sizing = sizing.too_late(30.0)
    assert sizing.visibility_s() == 480

    sizing = sizing.on_time(30.0)
    assert sizing.doublings == 1
    for _ in range(OBSERVED - 1):
        sizing = sizing.on_time(30.0)
        assert sizing.doublings == 1
    assert sizing.on_time(30.0).doublings == 0


def test_it_never_grows_without_bound():
    sizing = BatchSizing()
    for _ in range(1_000):
        sizing = sizing.too_late(1e6)
    assert sizing.visibility_s() == LONGEST_S


def test_no_dequeue_leases_for_longer_than_was_said():
    """Or a run that is killed hides messages for a time that no offset and no log tells."""
    lengths = LeaseLengths(None)

    lengths.observed(200.0, too_late=False)

    assert lengths.visibility_s() == RENEWED_S
    assert lengths.unusual_s() == lengths.visibility_s() == 800


def test_only_the_latest_batches_count():
    sizing = BatchSizing().on_time(800.0)
    for _ in range(OBSERVED):
        sizing = sizing.on_time(30.0)
    assert sizing.visibility_s() == 120


def test_a_lease_counts_from_when_its_request_was_sent():
    term = Term.of(sent_at=100.0, visibility_s=60.0)
    assert (term.renew_at, term.ends_at) == (130.0, 160.0)


@pytest.mark.parametrize(
    ("now", "renew_at"),
    [(130.0, 137.5), (152.0, 154.0), (159.9, 159.925), (160.0, None), (200.0, None)],
)
def test_an_unanswered_renewal_is_tried_again_in_a_quarter_of_what_is_left(now, renew_at):
    again = Term.of(100.0, 60.0).retry(now)
    assert (again and again.renew_at) == (None if renew_at is None else pytest.approx(renew_at))
    assert again is None or again.ends_at == 160.0
