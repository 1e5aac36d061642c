"""A query with a log whose options that decode change at any restart.

As in test_log_poison.py and test_exactly_once.py, and:

4. no row has a null body, unless onUndecodable=permissive has asked for it;
5. a batch that is asked for again has the same rows and bodies, whatever the options are then;
6. `readLog` gives the rows that the query gave.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from replayed_log import rows_in
from world.logged import Blobs, LoggedSpark, without_texts
from world.service import POISON, SOURCE, Service
from world.spark import NO_BODY, VISIBILITY_S

from spark_azqueue.errors import LogDamaged, UndecodableBody
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.service.blobs.references import Reference, new_name
from spark_azqueue.service.encoding import BodyType
from spark_azqueue.source.columns import Columns
from spark_azqueue.source.large_bodies import resolved
from spark_azqueue.source.logged.undecodable import Reading
from spark_azqueue.source.rows import record_batches

from .test_exactly_once import TRIGGER, ExactlyOnce
from .test_log_poison import Poisoned
from .test_promises import run_machine

pytestmark = pytest.mark.usefixtures("simulated_time")

CHANGES: dict[str, Any] = {
    "encoding": st.sampled_from(["none", "base64", "auto"]),
    "kind": st.sampled_from(["string", "binary"]),
    "undecodable": st.sampled_from(["poison", "permissive", "fail"]),
    "killed": st.booleans(),
}


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode("latin-1")).decode()


def plain(text: str) -> str:
    """What the sender meant: it puts some texts in base64, others as they are."""
    try:
        decoded = base64.b64decode(text, validate=True).decode("latin-1")
    except binascii.Error:
        return text
    return decoded if decoded.startswith("m") else text


class DecodingChanges(ExactlyOnce):
    """Half of the messages are in base64, of the others none can be taken for that. Some bodies
    are not UTF-8."""

    options: ClassVar[dict[str, str]] = {"maxPoisonMessages": "1000000"}

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, set[str]] = {}
        self.was_permissive = False
        self.spark.as_sent = self.as_sent
        self.others.updated = self.has_text

    def another_sends(self, queue: str) -> None:
        self.number += 1
        text = f"m{self.number} !"
        text = in_base64(text + "\xff" * (self.number % 5 == 0)) if self.number % 2 else text
        self.has_text(self.others.send(queue, text), text)

    def has_text(self, message_id: str, text: str) -> None:
        self.texts.setdefault(message_id, set()).add(text)

    def as_sent(self, message_id: str, body: str) -> str:
        assert self.was_permissive or not body.startswith(NO_BODY), "nobody wished for that"
        known = self.texts[message_id]
        body = body.removeprefix(NO_BODY) or max(known)
        found = {text for text in known if body in (text, plain(text))}
        assert found, f"{body!r} is no body of {known}"
        return max(found)

    def makes_its_batch_fail(self, text: str) -> bool:
        return super().makes_its_batch_fail(plain(text.partition(" ")[0]))

    @rule(**CHANGES)
    def decoding_changes(self, encoding: str, kind: str, undecodable: str, killed: bool) -> None:
        if killed:
            self.spark.kill()
        self.spark.restart_with(messageEncoding=encoding, bodyType=kind, onUndecodable=undecodable)
        self.was_permissive |= undecodable == "permissive"

    @rule(**TRIGGER)
    def spark_triggers(self, dies: str, slow: bool, sent: int, data: st.DataObject) -> None:
        try:
            super().spark_triggers(dies, slow, sent, data)
        except UndecodableBody as error:
            is_told = "was logged with bodyType=binary: set bodyType=binary again" in str(error)
            assert is_told or self.spark.options.get("onUndecodable") == "fail"
            self.spark.stop()

    @invariant()
    def nothing_is_lost(self) -> None:
        there = self.there() | self.elsewhere
        gone = {item for item in self.sent.items() if item[0] not in there}
        gone -= set(self.spark.sink.rows())
        if gone and self.deletes_at_once:
            gone -= self.spark.logged_rows()
        aside = self.set_aside() if gone else set()
        gone = {item for item in gone if item[1] not in aside}
        assert not gone, "deleted, and neither the sink nor a poison queue has it"

    @rule()
    def somebody_reads_the_log(self) -> None:
        """What is committed, as far as the log knows."""
        store, at = self.spark.store, self.spark.checkpoint
        if "log.json" not in store.objects:
            return
        found, given_up = rows_in(store.another()), self.spark.given_up()
        for batch in range(at.commits):
            first = int(at.offsets[batch - 1]["batch"]) + 1 if batch else 1
            numbers = range(first, int(at.offsets[batch]["batch"]) + 1)
            if all(number in found and number not in given_up for number in numbers):
                read = [row for number in numbers for row in found[number]]
                given = self.spark.history.get(batch, ())  # none if only the other load had data
                rows = [row for part in given for row in part]
                assert without_texts(read) == rows

    def teardown(self) -> None:
        self.somebody_reads_the_log()
        self.spark.kill()
        self.spark.restart_with(onUndecodable="poison", bodyType="binary")
        super().teardown()
        self.somebody_reads_the_log()


class DecodingChangesAfterLog(DecodingChanges):
    """The same with deleteAfter=log."""

    settings: ClassVar[dict[str, Any]] = {"delete_after": DeleteAfter.LOG}
    deletes_at_once = True


class DecodingChangesOnOldSpark(DecodingChanges):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class DecodingChangesOverPoison(DecodingChanges, Poisoned):
    """Every tenth message makes its batch fail."""

    options: ClassVar[dict[str, str]] = {**Poisoned.options, **DecodingChanges.options}


MACHINES = [
    DecodingChanges,
    DecodingChangesAfterLog,
    DecodingChangesOnOldSpark,
    DecodingChangesOverPoison,
]


@pytest.mark.parametrize("machine", MACHINES)
def test_decoding_changes(machine: type[DecodingChanges]) -> None:
    run_machine(machine)


# ── the same, step by step ────────────────────────────────────────────────────────────────────────

Settings = dict[str, Any]
EACH = [{"delete_after": each} for each in DeleteAfter]
TEXTS = [in_base64("m0"), "m1 !", in_base64("m2"), "m3 !"]


def a_query(
    settings: Settings, *texts: str, blobs: Blobs | None = None, **options: str
) -> tuple[Service, LoggedSpark]:
    service = Service()
    service.account.create(SOURCE)
    service.account.create(POISON)
    for text in texts:
        service.account.queue(SOURCE).put(text, now=service.clock.now())
    return service, LoggedSpark(service, options, settings=settings, blobs=blobs)


def replayed(spark: LoggedSpark, dies: str = "planned", **options: str) -> None:
    """Its batch is planned with the options of before, and written with these."""
    plans(spark, dies)
    spark.next_start_with(**options)


def plans(spark: LoggedSpark, dies: str = "planned") -> None:
    """Its batch is planned, and the query is killed."""
    if len(spark.checkpoint.offsets) == spark.checkpoint.commits:
        spark.trigger(dies=dies)
        return
    spark.start_only_the_process()
    spark.replays()
    spark.kill()


def given(spark: LoggedSpark) -> list[str]:
    return sorted(body for _, body in spark.sink.rows().elements())


def copied(service: Service) -> list[str]:
    return sorted(view.text for view in service.views(POISON))


def read(spark: LoggedSpark) -> list[str]:
    return sorted(body for rows in rows_in(spark.store.another()).values() for _, body in rows)


def is_over(service: Service, spark: LoggedSpark) -> None:
    while spark.trigger():
        pass
    service.pass_time(2 * VISIBILITY_S)
    while spark.trigger():
        pass
    spark.stop()
    assert service.views() == []


@pytest.mark.parametrize("settings", EACH, ids=str)
@pytest.mark.parametrize("undecodable", ["poison", "fail"])
@pytest.mark.parametrize("dies", ["after_log", "planned", "batch", "after_sink"])
def test_it_has_the_rows_that_it_was_logged_with(
    settings: Settings, undecodable: str, dies: str
) -> None:
    service, spark = a_query(settings, *TEXTS)
    replayed(spark, dies, messageEncoding="base64", onUndecodable=undecodable, bodyType="binary")

    is_over(service, spark)

    assert given(spark) == sorted(TEXTS)
    assert copied(service) == []
    assert read(spark) == sorted(TEXTS)


WISHES = ("fail", "poison", "permissive")
READINGS = [(encoding, kind) for encoding in ("none", "base64", "auto") for kind in BodyType]
NOT_TEXT = in_base64("m\xff")


@pytest.mark.parametrize("changed", READINGS, ids=str)
@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("logged", READINGS, ids=str)
@pytest.mark.parametrize("logged_wish", ["poison", "permissive"])
def test_a_logged_batch_keeps_its_rows_whatever_changes(
    logged_wish: str, logged: tuple[str, BodyType], wish: str, changed: tuple[str, BodyType]
) -> None:
    """Each row stays, with its body or without one, and no copy is made. A body that the new column
    cannot hold stops the query, until the old type is back."""
    texts = [*TEXTS, NOT_TEXT]
    service, spark = a_query({}, *texts, **reads(*logged), onUndecodable=logged_wish)
    spark.trigger(dies="after_sink")
    before, copies = given(spark), copied(service)
    assert len(before) + len(copies) == len(texts)
    spark.next_start_with(**reads(*changed), onUndecodable=wish)

    held_bytes = any("\xff" in body for body in before)
    if held_bytes and changed[1] is BodyType.STRING:
        with pytest.raises(UndecodableBody, match="binary: set bodyType=binary again"):
            spark.trigger()
        spark.kill()
        spark.next_start_with(bodyType="binary")
    plans(spark)
    is_over(service, spark)  # each run compares its rows with those of the first one

    assert given(spark) == before
    assert copied(service) == copies
    assert len(read(spark)) == len(before)


def reads(encoding: str, kind: BodyType) -> dict[str, str]:
    return {"messageEncoding": encoding, "bodyType": kind.value}


@pytest.mark.parametrize("settings", EACH, ids=str)
@pytest.mark.parametrize("wish", WISHES)
def test_a_row_without_a_body_comes_again_without_one(
    settings: Settings, wish: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A sink may have it. No second row follows, no copy, and the text is in the log."""
    permissive = {"messageEncoding": "base64", "onUndecodable": "permissive"}
    service, spark = a_query(settings, *TEXTS, **permissive)
    replayed(spark, messageEncoding="none", onUndecodable="fail")
    replayed(spark, messageEncoding="base64", onUndecodable=wish)

    is_over(service, spark)

    texts = ["m1 !", "m3 !"] if wish == "permissive" else ["", ""]
    assert given(spark) == sorted(["m0", "m2", *(NO_BODY + text for text in texts)])
    assert copied(service) == []
    assert read(spark) == sorted(["m0", "m2", NO_BODY + "m1 !", NO_BODY + "m3 !"])
    assert "was logged with messageEncoding=base64, now it is none" in caplog.text
    assert "now it is fail: the batch is decoded as logged; messages that do not dec" in caplog.text


def test_a_batch_with_options_that_this_release_does_not_know_is_refused() -> None:
    """Its rows would be others, and nothing of it is deleted."""
    service, spark = a_query({}, *TEXTS, messageEncoding="base64", onUndecodable="permissive")
    with pytest.MonkeyPatch.context() as patch:
        later = {**Reading.of(spark.config()).options, "onUndecodable": "later"}
        patch.setattr(Reading, "options", later)
        spark.trigger(dies="after_log")

    for _ in range(2):
        with pytest.raises(LogDamaged, match="its onUndecodable is not known: use the release"):
            spark.trigger()
        spark.kill()

    assert given(spark) == copied(service) == []
    assert len(service.views()) == len(TEXTS)


# ── large bodies ──────────────────────────────────────────────────────────────────────────────────

COLUMNS: Columns = (("body", "string"),)
LARGE = {"largeBody": "blob", "blobContainer": "bodies"}


def without_large_bodies(spark: LoggedSpark, **options: str) -> None:
    for name in LARGE:
        spark.options.pop(name, None)
    spark.next_start_with(**options)


@pytest.mark.parametrize("settings", EACH, ids=str)
@pytest.mark.parametrize("changed", ["removed", "another container"])
@pytest.mark.parametrize("undecodable", ["poison", "permissive", "fail"])
def test_a_reference_that_is_not_reached_any_more_is_no_body(
    settings: Settings, changed: str, undecodable: str
) -> None:
    blobs = Blobs(names={new_name()})
    text = Reference("bodies", max(blobs.names), 100_000).text
    service, spark = a_query(settings, text, "m1", blobs=blobs, **LARGE)
    spark.trigger(dies="planned")
    if changed == "removed":
        without_large_bodies(spark, onUndecodable=undecodable)
        spark.blobs = None
    else:
        spark.next_start_with(blobContainer="others", onUndecodable=undecodable)

    with pytest.raises(UndecodableBody, match="blobContainer=bodies: set these options again"):
        spark.trigger()
    spark.kill()
    spark.blobs = blobs
    spark.next_start_with(**LARGE)
    is_over(service, spark)

    assert given(spark) == sorted(["m1", text])
    assert copied(service) == []
    assert blobs.names, "it may still be read"


def test_a_text_that_was_logged_as_a_body_is_not_taken_for_a_reference() -> None:
    text = Reference("bodies", new_name(), 100_000).text
    service, spark = a_query({}, text)
    spark.trigger(dies="planned")
    spark.blobs = Blobs(names={"0" * 32})
    spark.next_start_with(**LARGE)
    spark.start_only_the_process()
    assert spark.consumer

    (part,) = spark.consumer.plan(spark.consumer.initial, spark.checkpoint.offsets[0])
    (row,) = [
        row
        for each in resolved(record_batches(part), COLUMNS, spark.config())
        for row in each.to_pylist()
    ]

    assert row == {"body": text}
    assert spark.blobs.deleted == []
    spark.kill()
    is_over(service, spark)
