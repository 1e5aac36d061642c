"""The store of the log in memory: each scripted fault does what it says."""

import pytest
from log_stores import MemoryLogStore, Put

from spark_azqueue.errors import ServiceError
from spark_azqueue.journal.store import LogStore


@pytest.fixture
def store():
    return MemoryLogStore()


@pytest.mark.parametrize(
    ("fault", "may", "exists"),
    [
        (Put.LOST_BEFORE, True, False),
        (Put.LOST_AFTER, True, True),
        (Put.LATE, True, False),
        (Put.REFUSED, False, False),
        (Put.BUSY, False, False),
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


def test_it_is_a_log_store(store):
    given: LogStore = store
    assert given.where == "memory:log"
