"""The recorded requests, signed anew, asked of the fake: what its answers differ in, and why."""

from __future__ import annotations

from cassettes import recorded
from replaying import Replay, by_cassette

ALLOWED = {
    "header server: another": "the fake says what it is",
    "PopReceipt: other constant bytes": (
        "the fake's hold `+` and `/`, so that code that does not escape them fails"
    ),
    "header x-ms-popreceipt: other constant bytes": "the same",
}
"""The only differences, each with its reason."""


def test_the_fake_answers_as_the_service_did():
    replay = Replay()
    for exchanges in by_cassette(recorded("queue")):
        replay.cassette(exchanges)

    kinds = {kind.partition(": ")[2] for kind in replay.differences}
    assert kinds == set(ALLOWED), "\n".join(sorted(replay.differences))
    assert replay.replayed == 910


def test_what_is_not_replayed_are_operations_that_the_fake_lacks():
    replay = Replay()
    for exchanges in by_cassette(recorded("queue")):
        replay.cassette(exchanges)

    assert replay.unknown == {
        "GET account?comp=properties&restype": 47,
        "PUT account?comp=properties&restype": 30,
        "GET queue?comp=acl": 28,
        "PUT queue?comp=acl": 24,
        "GET account?comp=stats&restype": 8,
    }
