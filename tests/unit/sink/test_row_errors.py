"""onRowError=queue: a row that cannot be sent is set aside with its reason; all others are sent."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_azqueue.errors import (
    AccessDenied,
    InvalidOption,
    InvalidRow,
    QueueNotFound,
    ServiceUnavailable,
)
from spark_azqueue.options.parse import sink_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.answers import service_error
from spark_azqueue.service.blobs.references import Large
from spark_azqueue.service.encoding import MAX_STORED_BYTES, stored_size
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.requests import EnqueueRow
from spark_azqueue.sink.row_errors import instead_of, requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.tally import Sent
from spark_azqueue.testing import FakeQueueService, Fault

COLUMNS = SinkColumns(body=0, queue=1, visibility_delay=2)
ASIDE = {"onRowError": "queue", "rowErrorQueue": "rejects"}
ACCOUNT = "AccountName=acc;AccountKey=a2V5"


def config(text: str = ACCOUNT, **options: str) -> SinkConfig:
    return sink_config({"secret.connectionString": text, **ASIDE, **options}, {})


def send(fake: FakeQueueService, rows: Iterable[tuple[Any, ...]], **options: str) -> Sent:
    made = config(fake.connection_string, **options)
    return Sender(made).send(requests(rows, COLUMNS, made))


def reports(fake: FakeQueueService) -> list[dict[str, Any]]:
    return [json.loads(view.text) for view in fake.messages("rejects")]


def report_of(body: object, queue: object = None, delay: object = None, **options: str) -> Any:
    (request,) = requests([(body, queue, delay)], COLUMNS, config(**options))
    assert isinstance(request, EnqueueRow)
    return request


def test_a_fan_out_goes_on_without_the_rows_that_cannot_be_sent(
    fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    for queue in ("north", "south", "west", "rejects"):
        fake.create_queue(queue)
    rows: list[tuple[Any, ...]] = [
        (f"{n}", ("north", "south", "west", "east")[n % 4], 0) for n in range(40)
    ]
    rows[8] = ("x" * 70_000, "north", 0)
    rows[9] = (None, "south", 0)
    rows[10] = ("ten", "West!", 0)
    rows[12] = ("twelve", "north", -5)

    assert send(fake, rows) == Sent(done=26, set_aside=14)

    assert [fake.count(queue) for queue in ("north", "south", "west")] == [8, 9, 9]
    found = reports(fake)
    by_error = {
        kind: [each for each in found if each["error"] == kind]
        for kind in ("InvalidRow", "QueueNotFound")
    }
    assert [len(each) for each in by_error.values()] == [4, 10]
    assert {each["queue"] for each in by_error["QueueNotFound"]} == {"east"}
    assert sorted(int(each["body"]) for each in by_error["QueueNotFound"]) == list(range(3, 40, 4))
    assert "HTTP 404 QueueNotFound" in by_error["QueueNotFound"][0]["reason"]
    assert sorted(each["reason"].split()[2] for each in by_error["InvalidRow"]) == [
        *("body", "body", "is", "queue")
    ]
    (told,) = (each.message for each in caplog.records if each.levelno == logging.WARNING)
    assert told.startswith("14 of 40 rows of this task cannot be sent and were dead-lettered in")


def test_with_fail_the_first_such_row_stops_the_write(fake: FakeQueueService) -> None:
    fake.create_queue("north")
    made = sink_config({"secret.connectionString": fake.connection_string}, {})

    with pytest.raises(InvalidRow, match="row 1 of this task cannot be sent: the body is null"):
        Sender(made).send(requests([("a", "north", 0), (None, "north", 0)], COLUMNS, made))
    with pytest.raises(QueueNotFound, match="row 0 of this task was not accepted"):
        Sender(made).send(requests([("a", "east", 0)], COLUMNS, made))


def test_the_queue_for_such_rows_may_be_created(fake: FakeQueueService) -> None:
    assert send(fake, [(None, "north", 0), ("a", "north", 0)], createQueue="true") == Sent(
        done=1, set_aside=1
    )
    assert reports(fake)[0]["body"] is None


def test_without_that_queue_the_task_fails_and_says_both(fake: FakeQueueService) -> None:
    with pytest.raises(QueueNotFound) as caught:
        send(fake, [("a", "east", 0)])

    assert "queue 'rejects'" in str(caught.value)
    assert "It was to be dead-lettered because: could not" in str(caught.value)
    assert "queue 'east'" in str(caught.value)


@pytest.mark.parametrize(("fault", "error"), [("deny", AccessDenied), ("busy", ServiceUnavailable)])
def test_what_every_row_would_meet_still_stops_the_write(
    fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch, fault: str, error: type[Exception]
) -> None:
    fake.create_queue("north")
    fake.create_queue("rejects")
    if fault == "deny":
        fake.revoked = True
    else:
        fake.faults.add(Fault("put", "busy_503", every=1))
        monkeypatch.setattr("spark_azqueue.sink.sender.SEND", RetryPolicy(0.0))

    with pytest.raises(error):
        send(fake, [("a", "north", 0)])

    fake.revoked = False
    assert fake.count("rejects") == 0


def test_a_report_says_what_the_row_was() -> None:
    request = report_of("ten", "West!", 0)

    assert request.queue.name == "rejects"
    assert request.ttl_s == -1
    assert json.loads(request.text) == {
        "reason": request.reason,
        "error": "InvalidRow",
        "queue": "West!",
        "body": "ten",
        "body_encoding": "text",
        "body_bytes": 3,
        "complete": True,
    }
    assert "its queue is 'West!'; expected a queue name" in request.reason


def test_the_report_is_encoded_as_other_messages_are() -> None:
    text = report_of(b"\xff\x00", "north", -1, messageEncoding="base64").text

    told = json.loads(base64.b64decode(text))
    assert (told["body"], told["body_encoding"]) == ("/wA=", "base64")
    assert (told["body_bytes"], told["complete"]) == (2, True)


def test_a_character_that_the_service_refuses_is_escaped() -> None:
    text = report_of("a\x00b", "north").text

    assert "\x00" not in text
    assert json.loads(text)["body"] == "a\x00b"


@given(
    piece=st.one_of(st.text(min_size=1), st.binary(min_size=1)),
    encoding=st.sampled_from(["none", "base64"]),
)
@settings(max_examples=50)
def test_a_body_that_is_too_long_is_cut_to_what_fits(piece: str | bytes, encoding: str) -> None:
    body = piece * (140_000 // len(piece))
    request = report_of(body, "north", messageEncoding=encoding)

    stored = request.text if encoding == "none" else base64.b64decode(request.text)
    told = json.loads(stored)
    assert len(request.text) <= MAX_STORED_BYTES
    assert len(request.text) > MAX_STORED_BYTES - 40, "no room is wasted"
    assert not told["complete"]
    whole = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    assert told["body_bytes"] == len(whole)
    part = told["body"]
    begun = base64.b64decode(part) if told["body_encoding"] == "base64" else part.encode()
    assert whole.startswith(begun)


def test_with_large_bodies_in_blobs_nothing_is_cut() -> None:
    request = report_of(
        "x" * 70_000,
        "West!",
        largeBody="blob",
        blobContainer="bodies",
    )

    assert isinstance(request.large, Large)
    told = json.loads(request.large.data)
    assert (len(told["body"]), told["complete"]) == (70_000, True)
    assert stored_size(request.large.data, config().encoding) > MAX_STORED_BYTES


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"onRowError": "queue"}, "onRowError=queue needs 'rowErrorQueue'"),
        ({"rowErrorQueue": "rejects"}, "nothing would ever go there: set onRowError=queue"),
        ({**ASIDE, "queue": "rejects"}, "'rowErrorQueue' is 'rejects', and other rows"),
        ({**ASIDE, "operation": "update"}, "goes with operation=enqueue, not with update"),
        ({**ASIDE, "operation": "delete"}, "goes with operation=enqueue, not with delete"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        sink_config({"secret.connectionString": ACCOUNT, **options}, {})


@pytest.mark.parametrize("encoding", ["none", "base64"])
@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f48e", "\x1b"])
def test_a_queue_that_fills_a_message_is_a_bad_row_and_stops_nothing(
    fake: FakeQueueService, encoding: str, letter: str
) -> None:
    for queue in ("north", "rejects"):
        fake.create_queue(queue)
    rows = [("one", "north", 0), ("two", letter * 65_000, 0), ("three", "north", 0)]

    assert send(fake, rows, messageEncoding=encoding) == Sent(done=2, set_aside=1)

    (text,) = (view.text for view in fake.messages("rejects"))
    report = json.loads(base64.b64decode(text) if encoding == "base64" else text)
    assert (report["body"], report["complete"]) == ("two", True)
    assert report["error"] == "InvalidRow"
    assert "65,000 characters" in report["queue"]


def test_a_connection_string_in_the_column_queue_shows_no_key(fake: FakeQueueService) -> None:
    fake.create_queue("rejects")

    assert send(fake, [("one", fake.connection_string, 0)]) == Sent(done=0, set_aside=1)

    (text,) = (view.text for view in fake.messages("rejects"))
    assert fake.key not in text


@pytest.mark.parametrize(
    ("status", "code", "aside"),
    [
        (400, "InvalidXmlDocument", True),
        (413, "RequestBodyTooLarge", True),
        (404, "QueueNotFound", True),
        (404, "ResourceNotFound", False),
        (409, "QueueBeingDeleted", False),
        (403, "AuthorizationPermissionMismatch", False),
        (400, "InvalidAuthenticationInfo", False),
    ],
)
def test_a_refusal_is_of_the_row_or_would_be_of_all(status: int, code: str, aside: bool) -> None:
    (row,) = requests([("a", "north", 0)], COLUMNS, config())
    error = service_error("put", status=status, code=code)

    instead = instead_of(row, error, config())

    assert (instead is not None) is aside
    if instead is not None:
        assert instead.queue.name == "rejects"
        assert json.loads(str(instead.text))["body"] == "a"
