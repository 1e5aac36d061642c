"""A message that no answer can hold whole, such as a text with a character that XML has not: what
becomes of it is the same in every mode."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import OneByOne
from executors_setting import ACCOUNT, CONFIG

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.journal.pending import PendingDelete, fingerprint
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.envelopes import envelope_of
from spark_azqueue.service.messages import Lease, Message, MessageKey, QueueRef, Received
from spark_azqueue.service.queues.calls import Page
from spark_azqueue.service.wire.concurrency import Limits
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.executors.leasing import Leasing
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SeenMessages
from spark_azqueue.source.executors.plan import Plan, Slot
from spark_azqueue.source.readers import AzQueueStreamReader
from spark_azqueue.testing import FakeQueueService, Fault, model

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


ENDS = pytest.mark.parametrize("ends", [False, True], ids=["goes on", "availableNow"])


@ENDS
@pytest.mark.parametrize("mode", MODES)
def test_with_fail_it_stops_the_query_and_stays_in_its_queue(
    fake: FakeQueueService, tmp_path: Path, mode: str, *, ends: bool
) -> None:
    """With executors, batches were empty for ever before, and nothing was said."""
    fake.create_queue("orders")
    fake.put_many("orders", [NOT_XML, "good"])
    reader = reader_of(fake, tmp_path, mode, onUndecodable="fail")
    if ends:
        reader.prepareForTriggerAvailableNow()

    with pytest.raises(
        UndecodableBody, match=r"U\+000B, which XML cannot hold.* goes back into .*=poison to dead-"
    ):
        first_batch(reader)

    reader.stop()
    assert fake.visible("orders") == 2


@ENDS
@pytest.mark.parametrize("others", [[], ["good"]], ids=["alone", "with another"])
@pytest.mark.parametrize("text", [NOT_XML, "\x00", "&#;<>\ufffe", "x" * 70_000 + "\x01"], ids=len)
@pytest.mark.parametrize("mode", MODES)
def test_with_poison_it_is_moved_at_once(
    fake: FakeQueueService, tmp_path: Path, mode: str, text: str, others: list[str], *, ends: bool
) -> None:
    """The answer alone might be damaged. So it is looked at twice, and nothing stops."""
    fake.create_queue("orders")
    fake.create_queue("orders-poison")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "MAX_MESSAGE_BYTES", 10**6)
        fake.put_many("orders", [text, *others])
    reader = reader_of(fake, tmp_path, mode, onUndecodable="poison")
    if ends:
        reader.prepareForTriggerAvailableNow()

    found = run(reader, until=lambda: fake.count("orders") == 0, ends=ends)

    copies = [envelope_of(each.text) for each in fake.messages("orders-poison")]
    bodies = [each.body for each in copies if each is not None]
    assert found == others
    assert "".join(sorted(bodies, key=text.index)) == text
    assert "which XML cannot hold" in (copies[0].reason if copies[0] else "")


@pytest.mark.parametrize("mode", MODES)
def test_what_was_damaged_once_on_the_way_is_a_row(
    fake: FakeQueueService, tmp_path: Path, mode: str
) -> None:
    fake.create_queue("orders")
    fake.create_queue("orders-poison")
    fake.put_many("orders", ["good"])
    fake.faults.add(Fault("dequeue", "broken_xml", times=1))
    reader = reader_of(fake, tmp_path, mode, onUndecodable="poison")

    assert run(reader, until=lambda: fake.count("orders") == 0) == ["good"]
    assert fake.count("orders-poison") == 0


def run(
    reader: AzQueueStreamReader, until: Callable[[], bool], *, ends: bool = False
) -> list[str | None]:
    """The bodies of all batches, until that is so. ends: it is so when there is no new batch."""
    start, bodies = reader.initialOffset(), list[str | None]()
    for _ in range(50):
        offset = reader.latestOffset(start)
        if offset != start:
            batches = (
                each for part in reader.partitions(start, offset) for each in reader.read(part)
            )
            bodies += [body for batch in batches for body in batch.column("body").to_pylist()]
        elif ends or until():
            break
        start = offset
    assert until()
    reader.stop()
    return bodies


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
