"""What all logs share: `Journal`, over a store in memory that can fail."""

from __future__ import annotations

import logging

import pytest
from log_stores import MemoryLogStore

from spark_azqueue.errors import LogConflict, LogDamaged, LostSegment, ServiceError
from spark_azqueue.journal.codec import Damaged, sealed
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.service.names import EXECUTORS, FILES, TRANSACTIONS, WRITE_AHEAD, Kind


class Failing(MemoryLogStore):
    """Fails for names in `broken`."""

    broken: frozenset[str] = frozenset()

    def delete(self, name: str) -> None:
        if name in self.broken:
            raise ServiceError("503")
        super().delete(name)


def a_journal(store: MemoryLogStore | None = None, account: str = "shop") -> Journal:
    return Journal(store or Failing(), account, "seg")


def text(data: bytes) -> str:
    if data != b"good":
        raise Damaged("it is not good")
    return data.decode()


@pytest.mark.parametrize("kind", [WRITE_AHEAD, EXECUTORS, TRANSACTIONS, FILES])
def test_the_first_that_opens_it_gives_it_an_id(kind: Kind) -> None:
    store = MemoryLogStore(kind=kind)
    first, second = a_journal(store), a_journal(store.another())

    assert not first.identify()
    first.open()
    assert second.identify()
    second.open()

    assert first.uuid == second.uuid != ""
    assert (first.is_new, second.is_new) == (True, False)


@pytest.mark.parametrize("kind", [WRITE_AHEAD, EXECUTORS, TRANSACTIONS, FILES])
def test_it_refuses_the_folder_of_another_account_or_kind(kind: Kind) -> None:
    store = MemoryLogStore(kind=kind)
    a_journal(store).open()

    with pytest.raises(LogConflict, match="belongs to the account 'shop'"):
        a_journal(store, "other").open()
    store.kind = FILES if kind is not FILES else WRITE_AHEAD
    for call in (Journal.open, Journal.identify):
        with pytest.raises(LogConflict, match="is the folder of a"):
            call(a_journal(store))


@pytest.mark.parametrize("account", ["shop\x1b[2J", "shop\nWARNING all is well", "shöp", 7, None])
def test_an_account_that_no_log_of_ours_names_is_damage(account: object) -> None:
    """Anyone who may write to the folder can change it, and errors show it."""
    store = MemoryLogStore()
    value = {"version": WRITE_AHEAD.version, "log": "a" * 32, "account": account}
    store.objects["log.json"] = sealed(value)

    with pytest.raises(LogDamaged, match="is damaged, or a newer release"):
        a_journal(store).open()


def test_an_object_is_read_within_its_bound_and_checked() -> None:
    journal = a_journal()
    journal.store.put_new("seg/000000000001", b"good")
    journal.store.put_new("seg/000000000002", b"bad!")

    assert journal.read("seg/000000000001", 4, text) == "good"
    assert journal.read("seg/000000000003", 4, text) is None
    with pytest.raises(LogDamaged, match="too large"):
        journal.read("seg/000000000001", 3, text)
    with pytest.raises(LogDamaged, match="not good"):
        journal.need("seg/000000000002", 4, text)
    with pytest.raises(LogDamaged, match="missing"):
        journal.need("seg/000000000003", 4, text)


def test_the_first_put_decides() -> None:
    journal = a_journal()
    name = "seg/000000000001"

    assert journal.first(name, b"good", lambda: "not asked") is None
    assert journal.first(name, b"evil", lambda: journal.read(name, 4, text)) == "good"
    assert journal.is_ours(name, b"good")
    assert not journal.is_ours(name, b"evil")
    assert not journal.is_ours(name, b"goo")
    with pytest.raises(LogDamaged, match="existed a moment ago, and is gone"):
        journal.first(name, b"evil", lambda: None)


def test_a_removal_that_fails_ends_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    store = Failing()
    names = [f"seg/{number:012d}" for number in range(4)]
    for name in names:
        store.put_new(name, b"x")
    store.broken = frozenset(names[2:])

    with caplog.at_level(logging.WARNING):
        assert a_journal(store).remove(names) == {*names[:2]}

    (warning,) = caplog.messages
    assert warning.startswith(f"could not remove an old '{names[2]}': ")
    assert store.names("seg") == names[2:]


def test_a_loss_is_raised_or_told_with_what_follows_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = LostSegment("segment 3 does not exist")
    with pytest.raises(LostSegment) as caught:
        tell_loss(error, lose=False, then="its rows are missing")
    assert caught.value is error
    assert not caplog.messages

    tell_loss(error, lose=True)
    tell_loss(error, lose=True, then="its rows are missing")

    alone = "[AZQUEUE_LOST_SEGMENT] segment 3 does not exist"
    assert caplog.messages == [alone, f"{alone}; failOnDataLoss=false: its rows are missing"]
