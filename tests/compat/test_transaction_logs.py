"""Transaction logs of earlier releases stay readable, and a write goes on from them.

Each folder holds a stream whose batch 1 was cut off, a `txnAppId` with the numbers 4, 5 and 7, and
another whose only number was cut off.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from log_stores import MemoryLogStore
from world.transactions import QUERY, HiddenQueues, Process, of_service

from spark_azqueue.errors import TransactionUnknown
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.names import TRANSACTIONS
from spark_azqueue.sink.transaction.inspect import records
from spark_azqueue.sink.transaction.listing import Step
from spark_azqueue.sink.transaction.log import TransactionLog
from spark_azqueue.sink.transaction.task import Writer
from spark_azqueue.testing import model

LOGS = Path(__file__).parent / "transactions"
WRITTEN = {"0.1": (), "0.1-written": ((4, 5),)}
"""What each knows to be written below number 7: the first release did not note it."""


def read(release: str) -> MemoryLogStore:
    folder = LOGS / release
    files = (path for path in folder.rglob("*") if path.is_file())
    objects = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return MemoryLogStore(objects=objects, kind=TRANSACTIONS)


def test_every_golden_log_is_listed() -> None:
    assert {path.name for path in LOGS.iterdir()} == set(WRITTEN)


@pytest.mark.core
@pytest.mark.parametrize("release", WRITTEN)
def test_records_are_read_as_they_were_meant(release: str) -> None:
    log = TransactionLog(read(release), "shop")
    assert log.identify()
    found = {each.about: each for each in records(log)}
    assert {about: (each.record.head.rows, each.done) for about, each in found.items()} == {
        f'batch 1 of query "{QUERY}"': (6, 4),
        'txnVersion 7 of txnAppId "nightly \\u00fc"': (1, 1),
        'txnVersion 20260131 of txnAppId "other"': (6, 4),
    }
    assert all(each.is_newest for each in found.values())
    for each in found.values():
        hidden = [one for chunk in log.hidden(each.record, each.done) for one in chunk]
        assert len(hidden) == each.record.head.rows - each.done
        assert log.queues(each.record, 0) in ({"aaa"}, set())
    nightly = found['txnVersion 7 of txnAppId "nightly \\u00fc"']
    assert nightly.record.head.written == WRITTEN[release]


@pytest.mark.parametrize("release", WRITTEN)
def test_a_write_goes_on_from_it(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service, log = HiddenQueues(), read(release)
    of_service(service, monkeypatch)
    # Whoever wrote it had a service with shorter receipts.
    monkeypatch.setattr(model, "_could_be_receipt", lambda receipt: True)

    def write(number: int) -> Step:
        named = {"queue": "aaa", "txnAppId": "nightly ü", "txnVersion": str(number)}
        return Process.of(service, log, Writer(), **named).run([("aaa", f"m{number}", 0)]).step

    if WRITTEN[release]:
        assert write(5) is Step.OVER
    else:
        with pytest.raises(TransactionUnknown) as caught:
            write(5)
        assert caught.value.condition is Condition.TRANSACTION_NOT_WRITTEN
    assert [write(number) for number in (7, 8, 7, 9)] == [
        *(Step.SHOW, Step.WRITE, Step.OVER, Step.WRITE)
    ]
    assert set(service.shown) == {"m8", "m9"}
    stream = Process.of(service, log, Writer(QUERY, "2" * 32, 1)).run([("aaa", "again", 0)])
    assert (stream.step, stream.rows) == (Step.SHOW, 6)
    following = Process.of(service, log, Writer(QUERY, "2" * 32, 2)).run([("aaa", "s2", 0)])
    assert following.step is Step.WRITE
