"""What a transaction refuses of its options, and what a move leaves where it is."""

from __future__ import annotations

from typing import Any

import pytest

from spark_azqueue.commands.transfer import is_of_this_message
from spark_azqueue.errors import (
    AccessDenied,
    InvalidOption,
    Outcome,
    QueueNotFound,
    ServiceError,
    ServiceUnavailable,
)
from spark_azqueue.options.parse import sink_config


def transaction(**more: str) -> object:
    given = {
        "queue": "orders",
        "secret.connectionString": "AccountName=memory;AccountKey=c2VjcmV0",
        "transactionLog": "file:/tmp/log",
    }
    return sink_config(given | more, {}).transaction


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "an empty name": ({"txnAppId": "", "txnVersion": "1"}, "txnAppId"),
    "a long name": ({"txnAppId": "a" * 201, "txnVersion": "1"}, "1 to 200 printable characters"),
    "a name of two lines": (
        {"txnAppId": "a\nb", "txnVersion": "1"},
        "1 to 200 printable characters",
    ),
    "a life above a week": ({"timeToLive": "8 days"}, "option 'timeToLive'.*Lower it"),
    "a life without end": ({"timeToLive": "-1"}, "timeToLive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_the_value(case: str) -> None:
    options, text = REFUSED[case]

    with pytest.raises(InvalidOption, match=text) as caught:
        transaction(**options)

    assert "c2VjcmV0" not in str(caught.value)


def test_what_is_just_allowed_is_taken() -> None:
    for name in ("a", "a" * 200):
        taken: Any = transaction(timeToLive="7 days", txnAppId=name, txnVersion="0")
        assert (taken.app_id, taken.version) == (name, 0)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ServiceError("x", status=400, outcome=Outcome.FATAL), True),
        (ServiceError("x", status=413, outcome=Outcome.FATAL), True),
        (ServiceError("x", status=409, outcome=Outcome.FATAL), False),
        (ServiceError("x", status=400, outcome=Outcome.RETRY), False),
        (ServiceUnavailable("x", status=503, outcome=Outcome.RETRY), False),
        (AccessDenied("x", status=400, outcome=Outcome.FATAL), False),
        (QueueNotFound("x", status=400, outcome=Outcome.FATAL), False),
        (ValueError("x"), False),
    ],
)
def test_only_a_body_that_no_queue_takes_is_left_while_others_are_moved(
    error: Exception, expected: bool
) -> None:
    assert is_of_this_message(error) is expected
