"""How eagerly a queue is asked."""

import pytest

from spark_azqueue.source.intake.polling import Pace


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


@pytest.mark.parametrize("longest", [0.1, 0.05])
def test_the_longest_pause_holds_from_the_first(longest):
    assert Pace().rest(found=False, now=0.0, longest_s=longest).not_before == longest
