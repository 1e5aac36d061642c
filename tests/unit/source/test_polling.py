"""How eagerly a queue is asked."""

import pytest

from spark_azqueue.source.intake.polling import FIRST_PAUSE_S, Pace


@pytest.mark.parametrize(
    ("width", "asked", "got", "after"),
    [
        (1, 32, 32, 2),
        (2, 32, 32, 4),
        (4, 32, 32, 8),
        (8, 32, 32, 8),  # as wide as it may be
        (8, 5, 5, 8),  # as much as there was room for is a full page, too
        (8, 32, 31, 1),
        (8, 32, 0, 1),
        (1, 32, 1, 1),
    ],
)
def test_twice_as_many_requests_while_pages_are_full(width, asked, got, after):
    assert Pace(width=width).page(asked=asked, got=got, widest=8).width == after


def test_a_pace_stays_within_its_bound_from_the_first_page():
    assert Pace().page(asked=32, got=32, widest=1).width == 1


def test_after_a_look_that_found_something_the_next_comes_at_once():
    pace = Pace(width=4, idle_since=90.0, not_before=99.0).rest(
        found=True, now=100.0, longest_s=1.0
    )

    assert pace == Pace(width=4, not_before=100.0)


def test_a_pause_is_a_fifth_of_the_idle_time_up_to_the_longest():
    pace, now, pauses = Pace(), 50.0, []
    while now < 60.0:
        pace = pace.rest(found=False, now=now, longest_s=1.0)
        pauses.append((now - 50.0, pace.not_before - now))
        now = pace.not_before

    for idle, pause in pauses:
        assert pause == pytest.approx(min(1.0, max(FIRST_PAUSE_S, idle / 5)))
    assert sum(1 for idle, _ in pauses if idle < 5.0) == 18, "ten more than by doubling"


def test_one_message_ends_the_pauses():
    pace = Pace()
    for _ in range(5):
        pace = pace.rest(found=False, now=0.0, longest_s=60.0)
    pace = pace.page(asked=32, got=1, widest=8).rest(found=True, now=0.0, longest_s=60.0)

    assert pace.rest(found=False, now=0.0, longest_s=60.0).not_before == FIRST_PAUSE_S


def test_years_of_emptiness_do_not_overflow():
    pace = Pace(idle_since=0.0).rest(found=False, now=1e9, longest_s=3600.0)

    assert pace.not_before == 1e9 + 3600.0


@pytest.mark.parametrize("longest", [0.1, 0.05])
def test_the_longest_pause_holds_from_the_first(longest):
    assert Pace().rest(found=False, now=0.0, longest_s=longest).not_before == longest
