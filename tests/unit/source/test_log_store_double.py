"""The store of the log in memory: each scripted fault does what it says."""

import pytest
from log_stores import MemoryLogStore
from world.fates import Fate

from spark_azqueue.errors import ServiceError, ServiceUnavailable
from spark_azqueue.journal.store import LogStore


@pytest.fixture
def store():
    return MemoryLogStore()


@pytest.mark.parametrize(
    ("fault", "may", "exists"),
    [
        (Fate.LOST_BEFORE, True, False),
        (Fate.LOST_AFTER, True, True),
        (Fate.LATE, True, False),
        (Fate.REFUSED, False, False),
        (Fate.BUSY, False, False),
    ],
)
def test_a_fault_is_of_one_put(store, fault, may, exists):
    store.next_puts(None, fault)
    assert store.put_new("seg/1", b"a") is True
    with pytest.raises(ServiceError) as caught:
        store.put_new("seg/2", b"b")

    assert caught.value.may_have_taken_effect is may
    assert store.get("seg/2", 10) == (b"b" if exists else None)
    assert store.put_new("seg/2", b"c") is not exists


def test_a_late_put_lands_if_the_name_is_free(store):
    store.next_puts(Fate.LATE, Fate.LATE)
    for name in ("seg/1", "seg/2"):
        with pytest.raises(ServiceUnavailable):
            store.put_new(name, b"late")
    assert store.another().put_new("seg/2", b"other") is True

    assert store.names("seg") == ["seg/2"]
    assert store.land() == [("seg/1", True), ("seg/2", False)]
    assert (store.get("seg/1", 10), store.get("seg/2", 10)) == (b"late", b"other")
    assert store.land() == []


def test_objects_may_be_damaged_cut_and_removed(store):
    store.put_new("seg/1", b"abc")
    store.damage("seg/1", at=0)
    assert store.get("seg/1", 10) == b"\x9ebc"
    store.cut("seg/1", 1)
    assert store.get("seg/1", 10) == b"\x9e"
    store.remove("seg/1")
    assert store.get("seg/1", 10) is None


def test_another_process_has_the_same_objects_and_its_own_faults_and_calls(store):
    other = store.another()
    other.next_puts(Fate.REFUSED)

    assert store.put_new("seg/1", b"a") is True
    assert other.get("seg/1", 1) == b"a"
    assert (store.calls, other.calls) == ([("put_new", "seg/1")], [("get", "seg/1")])


def test_a_store_that_is_down_refuses_all_but_close(store):
    store.is_down = True
    for call in (store.open, lambda: store.names("seg"), lambda: store.put_new("seg/1", b"")):
        with pytest.raises(ServiceUnavailable) as caught:
            call()
        assert not caught.value.may_have_taken_effect
    store.close()


def test_it_is_a_log_store(store):
    given: LogStore = store
    assert given.where == "memory:log"
