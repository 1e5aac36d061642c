"""Values that cannot work are refused at once, with the value and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from spark_azqueue.commands.transfer import is_of_this_message
from spark_azqueue.duplicates import without_duplicates
from spark_azqueue.errors import (
    AccessDenied,
    InvalidOption,
    Outcome,
    QueueNotFound,
    ServiceError,
    ServiceUnavailable,
)
from spark_azqueue.options.parse import sink_config
from spark_azqueue.service.names import checked_folder
from spark_azqueue.supervisor import RestartLimits

ROWS: Any = SimpleNamespace(columns=["message_id", "number"])


def transaction(**more: str) -> object:
    given = {
        "queue": "orders",
        "secret.connectionString": "AccountName=memory;AccountKey=c2VjcmV0",
        "transactionLog": "file:/tmp/log",
    }
    return sink_config(given | more, {}).transaction


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no key": (lambda: without_duplicates(ROWS), InvalidOption, "at least one column"),
    "a key that is missing": (
        lambda: without_duplicates(ROWS, "order"),
        InvalidOption,
        "needs the column 'order', and there is none: there are message_id, number",
    ),
    "no time": (
        lambda: without_duplicates(ROWS, "number", within="0 s"),
        InvalidOption,
        "within='0 s'",
    ),
    "a negative count": (lambda: RestartLimits(restarts=-1), ValueError, "restarts=-1, "),
    "a negative count in all": (
        lambda: RestartLimits(restarts_in_all=-1),
        ValueError,
        "restarts_in_all=-1, ",
    ),
    "waits the wrong way round": (
        lambda: RestartLimits(first_wait=2, longest_wait=1),
        ValueError,
        "longest_wait may not be below first_wait",
    ),
    "a health that comes at once": (
        lambda: RestartLimits(healthy_after=0.0),
        ValueError,
        "healthy_after=0.0: expected",
    ),
    "an empty name": (lambda: transaction(txnAppId="", txnVersion="1"), InvalidOption, "txnAppId"),
    "a long name": (
        lambda: transaction(txnAppId="a" * 201, txnVersion="1"),
        InvalidOption,
        "1 to 200 printable characters",
    ),
    "a name of two lines": (
        lambda: transaction(txnAppId="a\nb", txnVersion="1"),
        InvalidOption,
        "1 to 200 printable characters",
    ),
    "a life above a week": (
        lambda: transaction(timeToLive="8 days"),
        InvalidOption,
        "option 'timeToLive'.*Lower it",
    ),
    "a life without end": (lambda: transaction(timeToLive="-1"), InvalidOption, "timeToLive"),
    "a folder above": (lambda: checked_folder("../seg"), ValueError, "is no name of a folder"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_the_value(case: str) -> None:
    call, kind, text = REFUSED[case]

    with pytest.raises(kind, match=text) as caught:
        call()

    assert not re.search("c2VjcmV0", str(caught.value))


def test_what_is_just_allowed_is_taken() -> None:
    assert RestartLimits(restarts=0, restarts_in_all=0, first_wait=0, longest_wait=0)
    for name in ("a", "a" * 200):
        taken: Any = transaction(timeToLive="7 days", txnAppId=name, txnVersion="0")
        assert (taken.app_id, taken.version) == (name, 0)
    assert checked_folder("seg") == "seg"


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
