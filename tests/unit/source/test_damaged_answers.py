"""A message that no answer can hold whole, such as a text with a character that XML has not: what
becomes of it is the same in every mode."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import OneByOne
from executors_setting import ACCOUNT, CONFIG

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.journal.pending import PendingDelete, fingerprint
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.messages import Lease, Message, MessageKey, QueueRef, Received
from spark_azqueue.service.queues.calls import Page
from spark_azqueue.service.queues.concurrency import Limits
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.executors.leasing import Leasing
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SeenMessages
from spark_azqueue.source.executors.plan import Plan, Slot
from spark_azqueue.source.readers import AzQueueStreamReader
from spark_azqueue.testing import FakeQueueService, model

MODES = {
    "driver": {},
    "log": {"writeAheadLog": "file:{folder}/log"},
    "executors": {
        "writeAheadLog": "file:{folder}/log",
        "deleteAfter": "log",
        "leaseOn": "executors",
    },
}
NOT_XML = "a\x0bb"


@pytest.fixture(autouse=True)
def takes_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that lets such a text in, and whose answers hold it as it is."""
    monkeypatch.setattr(model, "NOT_XML", re.compile("(?!)"))


def reader_of(fake: FakeQueueService, folder: Path, mode: str, **more: str) -> AzQueueStreamReader:
    given = {name: text.format(folder=folder) for name, text in MODES[mode].items()}
    secret = {"secret.connectionString": fake.connection_string}
    config = source_config(secret | {"queue": "orders"} | given | more, {})
    columns = source_columns(config.body_type, permissive=more["onUndecodable"] == "permissive")
    return AzQueueStreamReader(config, columns, columns)


def first_batch(reader: AzQueueStreamReader) -> list[str | None]:
    """The bodies of the first batch. Raises what stops the query, wherever it comes from."""
    start = reader.initialOffset()
    offset = reader.latestOffset(start)
    assert offset != start
    parts = reader.partitions(start, offset)
    batches = [batch for part in parts for batch in reader.read(part)]
    return [body for batch in batches for body in batch.column("body").to_pylist()]


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "availableNow"])
@pytest.mark.parametrize("choice", ["fail", "poison"])
@pytest.mark.parametrize("mode", MODES)
def test_it_stops_the_query_and_stays_in_its_queue(
    fake: FakeQueueService, tmp_path: Path, mode: str, choice: str, *, ends: bool
) -> None:
    """With executors, batches were empty for ever before, and nothing was said."""
    fake.create_queue("orders")
    fake.create_queue("orders-poison")
    fake.put_many("orders", [NOT_XML, "good"])
    reader = reader_of(fake, tmp_path, mode, onUndecodable=choice)
    if ends:
        reader.prepareForTriggerAvailableNow()

    with pytest.raises(
        UndecodableBody, match=r"answer was damaged within this message. It goes back into the"
    ):
        first_batch(reader)

    reader.stop()
    assert (fake.visible("orders"), fake.count("orders-poison")) == (2, 0)


@pytest.mark.parametrize("mode", MODES)
def test_it_is_a_row_without_a_body_if_the_user_wants_that(
    fake: FakeQueueService, tmp_path: Path, mode: str
) -> None:
    fake.create_queue("orders")
    fake.put_many("orders", [NOT_XML, "good"])
    reader = reader_of(fake, tmp_path, mode, onUndecodable="permissive")

    assert first_batch(reader) == [None, "good"]
    reader.stop()


# ── a message that has given its row already ──────────────────────────────────────────────────────

ORDERS = QueueRef(ACCOUNT, "aaa")
KEY = MessageKey(ORDERS, "00000000-0000-0000-0000-000000000001")
PERMISSIVE = replace(CONFIG, on_undecodable=OnUndecodable.PERMISSIVE)
PLAN = Plan(ACCOUNT, "a" * 32, PlanId(1, "b" * 32), (Slot((ORDERS,), 9, 1_000),))


class Answers(OneByOne):
    """A queue whose first answer holds one message, once or more often: its text each time, and
    whether that was whole."""

    throttled = 0

    def __init__(self, *given: tuple[str, bool]) -> None:
        super().__init__(lambda _: self)
        self.limits = Limits()
        self._given = given

    def dequeue(self, count: int, visibility_s: int) -> Page:
        given, self._given = self._given, ()
        received = (
            Received(
                Message(ORDERS, KEY.message_id, text, 0, 0, number, intact=intact),
                Lease(*KEY, "whole" if intact else "damaged"),
            )
            for number, (text, intact) in enumerate(given, 1)
        )
        return Page(tuple(received), count, 0.0, 0, ORDERS)


def leased(
    known: SeenMessages, *given: tuple[str, bool]
) -> tuple[list[tuple[str, str]], list[str]]:
    """The texts and receipts of the rows, and the receipts by which copies are deleted."""
    found = Leasing(PERMISSIVE, PLAN, PLAN.slots[0], known, Answers(*given)).lease()  # type: ignore[arg-type]
    assert found.unwanted == (), "given back: it would come at once, again and again"
    rows = [(message.text, lease.pop_receipt) for message, lease in found.received]
    return rows, [lease.pop_receipt for lease in found.copies]


def known(text: str) -> SeenMessages:
    return SeenMessages([PendingDelete(KEY, fingerprint(text), 0)])


def test_a_known_message_in_a_damaged_answer_gives_no_second_row() -> None:
    """Whether somebody updated it cannot be told. So it is not deleted, either: it comes when its
    lease ends, and is judged then."""
    assert leased(known("text"), ("te", False)) == ([], [])
    assert leased(known("text"), ("te", False), ("text", True)) == ([], ["whole"])


def test_a_known_message_that_no_answer_holds_is_known_by_what_can_be_read() -> None:
    assert leased(known("te"), ("te", False)) == ([], ["damaged"])


def test_a_message_that_comes_again_damaged_keeps_its_text() -> None:
    assert leased(SeenMessages(), ("text", True), ("te", False)) == ([("text", "whole")], [])
