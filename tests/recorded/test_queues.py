"""Each recorded success of a request that we make, byte for byte, to the call that asks for it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree

import pytest
from cassettes import Recorded, recorded
from feeding import Feeding

from spark_azqueue.errors import Outcome, ServiceError
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.queues.calls import Count, Delete, Dequeue, Peek, Put, Update
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.management import create_queue, list_queues, read_metadata
from spark_azqueue.service.wire.calls import Call

QUEUE = QueueRef("storagename", "orders")
LEASE = Lease(QUEUE, "fbe399c1-6b46-4ee5-844a-fae4739e75f4", "AgAAAAMAAAAAAAAAkxriZFuP1QE=")
LATEST = datetime(9999, 12, 30, 23, 59, 59, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def service():
    with Feeding() as feeding:
        yield feeding


@pytest.fixture(scope="module")
def client(service):
    made = QueueClient(Account("storagename", service.url, sas="sv=1&sig=x"))
    yield made
    made.close()


def answers(method: str, parts: int, status: int, *, comp: str = "", peek: bool = False):
    """The recorded answers to one kind of request."""
    found = [
        each
        for each in recorded("queue")
        if (each.method, len(each.parts), each.status) == (method, parts, status)
        and dict(parse_qsl(each.query)).get("comp", "") == comp
        and "restype" not in each.names
        and ("peekonly" in each.names) == peek
    ]
    assert found
    return found


def read(service: Feeding, client: QueueClient, call: Call[Any], each: Recorded) -> Any:
    service.next(each)
    return client.now(call)


def messages_in(each: Recorded) -> list[dict[str, str]]:
    """What the document holds, read in another way than ours."""
    root = ElementTree.fromstring(each.content.decode("utf-8-sig"))
    return [{field.tag: field.text or "" for field in message} for message in root]


def microseconds(date: str) -> int:
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (min(parsedate_to_datetime(date), LATEST) - epoch) // timedelta(microseconds=1)


def check(message, told: dict[str, str]) -> None:
    assert message.intact
    assert message.message_id == told["MessageId"]
    assert message.text == told["MessageText"]
    assert message.dequeue_count == int(told["DequeueCount"])
    assert message.insertion_time == microseconds(told["InsertionTime"])
    assert message.expiration_time == microseconds(told["ExpirationTime"])


def test_dequeued_pages(service, client, caplog):
    sizes: Counter[int] = Counter()
    for each in answers("GET", 2, 200):
        page = read(service, client, Dequeue(QUEUE, 32, 30), each)
        told = messages_in(each)
        assert len(page.received) == len(told)
        for (message, lease), fields in zip(page.received, told, strict=True):
            check(message, fields)
            assert lease == Lease(QUEUE, fields["MessageId"], fields["PopReceipt"])
            assert message.next_visible_time == microseconds(fields["TimeNextVisible"])
        assert page.answered_at == microseconds(each.fields["date"])
        sizes[len(told)] += 1
        if len(told) > 1:
            assert len({lease.pop_receipt for _, lease in page.received}) == 1

    assert not caplog.records
    assert sizes.total() == 180
    assert sum(sizes[n] for n in sizes if n > 1) == 8, "pages of several messages, one receipt each"


def test_peeked_pages(service, client, caplog):
    pages = answers("GET", 2, 200, peek=True)
    for each in pages:
        peeked = read(service, client, Peek(QUEUE, 32), each)
        for message, fields in zip(peeked.messages, messages_in(each), strict=True):
            check(message, fields)
            assert message.next_visible_time is None

    assert not caplog.records
    assert len(pages) == 64


def test_puts_with_their_leases(service, client):
    puts = answers("POST", 2, 201)
    for each in puts:
        lease = read(service, client, Put(QUEUE, "x", wants_lease=True), each)
        (told,) = messages_in(each)
        assert lease == Lease(QUEUE, told["MessageId"], told["PopReceipt"])

    assert len(puts) == 262


def test_updates_with_their_new_receipts(service, client):
    updates = answers("PUT", 3, 204)
    for each in updates:
        outcome, lease = read(service, client, Update(LEASE, 30), each)
        assert outcome is Outcome.OK
        assert lease == LEASE._replace(pop_receipt=each.fields["x-ms-popreceipt"])

    assert len(updates) == 23


def test_deletes(service, client):
    deletes = answers("DELETE", 3, 204)

    assert {read(service, client, Delete(LEASE), each) for each in deletes} == {Outcome.OK}
    assert len(deletes) == 16


def test_counts_and_metadata(service, client):
    account = Account("storagename", service.url, sas="sv=1&sig=x")
    found = answers("GET", 1, 200, comp="metadata")
    for each in found:
        count = read(service, client, Count(QUEUE), each)
        assert count == int(each.fields["x-ms-approximate-messages-count"])
        service.next(each)
        metadata = read_metadata(account, "orders")
        told = {name: value for name, value in each.headers if name.startswith("x-ms-meta-")}
        assert {f"x-ms-meta-{name.lower()}": value for name, value in metadata.items()} == told

    assert len(found) == 22


def test_lists_of_queues(service):
    account = Account("storagename", service.url, sas="sv=1&sig=x")
    lists = answers("GET", 0, 200, comp="list")
    for each in lists:
        root = ElementTree.fromstring(each.content.decode("utf-8-sig"))
        names = [found.text for found in root.iter("Name")]
        service.next(each)
        if root.findtext("NextMarker"):
            # Another request follows for the next page, and gets none here.
            with pytest.raises(ServiceError):
                list_queues(account, "", within_s=0.3)
        else:
            assert list_queues(account, "") == names

    assert len(lists) == 21


def test_created_queues(service):
    account = Account("storagename", service.url, sas="sv=1&sig=x")
    made: Counter[bool] = Counter()
    for status in (201, 204, 409):
        for each in answers("PUT", 1, status):
            service.next(each)
            made[create_queue(account, "orders")] += 1
    for each in answers("PUT", 1, 400):
        service.next(each)
        with pytest.raises(ServiceError, match="HTTP 400 InvalidResourceName"):
            create_queue(account, "orders")

    assert made == {True: 249, False: 8}
