"""messageFormat=cloudevents: what a row becomes, and which rows make no event."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.errors import InvalidOption, InvalidRow, InvalidSchema
from spark_azqueue.options.choices import MessageFormat
from spark_azqueue.options.parse import sink_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.blobs.references import Large
from spark_azqueue.sink.columns import EVENT_TYPES, SinkColumns, check_supplied
from spark_azqueue.sink.events import event_of
from spark_azqueue.sink.row_errors import requests

NAMES = ("body", *EVENT_TYPES)
COLUMNS = SinkColumns(**{name: place for place, name in enumerate(NAMES)})
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LEAST: dict[str, Any] = {"body": "7", "id": "order-7", "type": "order", "source": "/shop"}


def row(**values: Any) -> tuple[Any, ...]:
    return tuple({**LEAST, **values}.get(name) for name in NAMES)


def text(**values: Any) -> str:
    return event_of(row(**values), COLUMNS, {**LEAST, **values}["body"])


def event(**values: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(text(**values))
    return made


def config(**options: str) -> SinkConfig:
    given = {"secret.connectionString": "AccountName=acc;AccountKey=a2V5", "queue": "orders"}
    return sink_config({**given, "messageFormat": "cloudevents", **options}, {})


def test_a_row_with_all_attributes() -> None:
    at = datetime(2026, 11, 22, 12, 30, 0, 250_000, timezone(timedelta(hours=1)))
    more = {"subject": "Zürich/7", "datacontenttype": "application/json", "traceparent": TRACE}

    assert event(body='{"quantity": 2}', time=at, **more) == {
        "specversion": "1.0",
        "id": "order-7",
        "type": "order",
        "source": "/shop",
        **more,
        "time": "2026-11-22T11:30:00.250000Z",
        "data": {"quantity": 2},
    }


def test_attributes_that_are_null_or_have_no_column_are_left_out() -> None:
    few = SinkColumns(body=0, id=1, type=2, source=3)

    made = event_of(("7", "order-7", "order", "/shop"), few, "7")

    assert json.loads(made) == event()
    assert set(event()) == {"specversion", "id", "type", "source", "data"}


def test_a_time_without_a_zone_is_local_time() -> None:
    at = datetime(2026, 11, 22, 12, 30)

    assert datetime.fromisoformat(event(time=at)["time"].replace("Z", "+00:00")) == at.astimezone()


DATA = [  # body, datacontenttype, data
    ('{"a": [1, null]}', None, {"a": [1, None]}),
    (' {"a": 1}\r\n', "application/json; charset=utf-8", {"a": 1}),
    ("[]", "application/vnd.shop.order+json", []),
    ("7", "text/json", 7),
    ('"seven"', None, "seven"),
    ("seven", None, "seven"),
    ("", None, ""),
    ("{'a': 1}", "application/json", "{'a': 1}"),
    ('{"a": NaN}', None, '{"a": NaN}'),
    ('{"a": 1} {"a": 2}', None, '{"a": 1} {"a": 2}'),
    ('{"a": 1}', "text/plain", '{"a": 1}'),
    ("<a/>", "application/xml", "<a/>"),
    ('so "it"\n\x00 is', "text/plain", 'so "it"\n\x00 is'),
]


@pytest.mark.parametrize(("body", "kind", "data"), DATA)
def test_data_is_json_if_the_body_is_json_and_says_nothing_else(
    body: str, kind: str | None, data: object
) -> None:
    assert event(body=body, datacontenttype=kind)["data"] == data


@pytest.mark.parametrize("body", [b"\xff\x00", b"", bytearray(b'{"a": 1}')])
def test_a_binary_body_is_in_base64(body: bytes) -> None:
    made = event(body=body)

    assert base64.b64decode(made["data_base64"]) == body
    assert "data" not in made


@pytest.mark.parametrize("number", ["1e3", "1.10", "9" * 5000, "-0"])
def test_numbers_are_sent_as_they_are_written(number: str) -> None:
    assert text(body=f'{{"n":{number}}}').endswith(f'"data": {{"n":{number}}}}}')


def test_what_xml_cannot_hold_is_escaped() -> None:
    made = text(body='{"a\ufffe": "\uffff"}', id="7\uffff")

    assert "\ufffe" not in made
    assert "\uffff" not in made
    assert json.loads(made)["data"] == {"a\ufffe": "\uffff"}
    assert json.loads(made)["id"] == "7\uffff"


@given(body=st.one_of(st.text(), st.binary()), key=st.text(min_size=1), kind=st.booleans())
def test_any_body_is_refused_or_comes_back(body: str | bytes, key: str, kind: bool) -> None:
    media = "text/plain" if kind else None
    try:
        (request,) = requests([row(body=body, id=key, datacontenttype=media)], COLUMNS, config())
    except InvalidRow as error:
        assert "holds the character" in str(error)  # noqa: PT017 (which rows are refused is random)
        return
    made = json.loads(request.text)
    assert made["id"] == key
    if isinstance(body, bytes):
        assert base64.b64decode(made["data_base64"]) == body
    elif made["data"] != body:
        assert json.loads(body) == made["data"]
        assert media is None


BAD = [
    ({"id": None}, "its 'id' is null; an event needs one"),
    ({"id": ""}, "its 'id' is empty; an event needs one"),
    ({"type": None}, "its 'type' is null"),
    ({"source": ""}, "its 'source' is empty"),
    ({"source": "the shop"}, "its 'source' is 'the shop'; expected a URI reference"),
    ({"source": "/100%"}, "its 'source' is '/100%'"),
    ({"subject": ""}, "its 'subject' is empty; give it a value, or null"),
    ({"subject": "a\nb"}, "its 'subject' holds the character U+000A"),
    ({"id": "a\x85"}, "its 'id' holds the character U+0085"),
    ({"datacontenttype": "json"}, "its 'datacontenttype' is 'json'; expected a media type"),
    ({"datacontenttype": "text/plain; x"}, "expected a media type"),
    ({"traceparent": TRACE + "\n"}, "holds the character U+000A"),
    ({"time": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))}, "UTC cannot express"),
    ({"body": "[" * 100_000 + "]" * 100_000}, "nested too deeply for an event"),
    ({"body": None}, "the body is null"),
]


@pytest.mark.parametrize(("values", "says"), BAD)
def test_what_makes_no_event_is_refused_before_it_is_sent(
    values: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRow, match="row 0 of this task cannot be sent") as caught:
        list(requests([row(**values)], COLUMNS, config()))

    assert says in str(caught.value)


@pytest.mark.parametrize(
    "good",
    [TRACE, TRACE[:-2] + "00", "01" + TRACE[2:], "cc" + TRACE[2:] + "-what-comes-later"],
)
def test_trace_contexts_of_w3c_are_taken(good: str) -> None:
    assert event(traceparent=good)["traceparent"] == good


@pytest.mark.parametrize(
    "bad",
    [
        *("", "00", TRACE[3:], TRACE.upper(), TRACE + "-more", TRACE + " ", " " + TRACE),
        *("ff" + TRACE[2:], "00-" + "0" * 32 + TRACE[35:], TRACE[:36] + "0" * 16 + "-01"),
        *(TRACE[:-1], TRACE.replace("-", ""), TRACE[:40] + "g" + TRACE[41:]),
        *("cc" + TRACE[2:] + "more", "cc" + TRACE[2:] + "-a b"),
    ],
)
def test_other_trace_contexts_are_not(bad: str) -> None:
    with pytest.raises(InvalidRow, match="its 'traceparent' is"):
        event(traceparent=bad)


def test_a_row_that_makes_no_event_is_set_aside_with_what_it_had() -> None:
    made = config(onRowError="queue", rowErrorQueue="rejects")
    good, bad = requests([row(), row(id=None, subject="x" * 900)], COLUMNS, made)

    assert json.loads(good.text) == event()
    told = json.loads(bad.text)
    assert (told["error"], told["body"], told["complete"]) == ("InvalidRow", "7", True)
    assert told["reason"] == "[AZQUEUE_INVALID_ROW] its 'id' is null; an event needs one"
    assert told["attributes"] == {
        **dict.fromkeys(EVENT_TYPES),
        "type": "order",
        "source": "/shop",
        "subject": "x" * 400,
    }


def test_the_event_is_encoded_and_stored_as_other_bodies_are() -> None:
    (encoded,) = requests([row()], COLUMNS, config(messageEncoding="base64"))
    large = config(largeBody="blob", blobContainer="bodies")
    (stored,) = requests([row(body="x" * 70_000)], COLUMNS, large)

    assert json.loads(base64.b64decode(encoded.text)) == event()
    blob = stored.large
    assert isinstance(blob, Large)
    assert json.loads(blob.data) == event(body="x" * 70_000)
    with pytest.raises(InvalidRow, match="bytes as stored"):
        list(requests([row(body="x" * 65_500)], COLUMNS, config()))


def test_events_are_enqueued_only() -> None:
    with pytest.raises(InvalidOption, match="messageFormat=cloudevents goes with operation=enq"):
        config(operation="update")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id": None}, "the column 'id' is missing: an event needs an id"),
        ({"type": None}, "the column 'type' is missing"),
        ({"source": None}, "the column 'source' is missing"),
        ({"id": "bigint"}, "the column 'id' is bigint; the sink takes string"),
        ({"time": "string"}, "the column 'time' is string; the sink takes timestamp"),
    ],
)
def test_columns_of_an_event(changes: dict[str, str | None], says: str) -> None:
    columns = {name: types[0] for name, types in EVENT_TYPES.items()} | {"body": "binary"}
    supplied = {**columns, **changes}

    with pytest.raises(InvalidSchema) as caught:
        check_supplied(
            tuple((name, kind) for name, kind in supplied.items() if kind),
            ignore_extra=False,
            queue="orders",
            message_format=MessageFormat.CLOUD_EVENTS,
        )

    assert says in str(caught.value)


def test_without_events_their_columns_are_unknown() -> None:
    with pytest.raises(InvalidSchema, match="the sink does not know the column 'id'"):
        check_supplied((("body", "string"), ("id", "string")), ignore_extra=False, queue="orders")
