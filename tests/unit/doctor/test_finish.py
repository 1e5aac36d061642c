"""`python -m spark_azqueue finish`: what it shows, deletes, and leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_azqueue.commands.command_line import main
from spark_azqueue.errors import AzQueueError, LogConflict
from spark_azqueue.options.parse import sink_config
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.transaction import names
from spark_azqueue.sink.transaction.commit import Transactions
from spark_azqueue.sink.transaction.inspect import discard, records
from spark_azqueue.sink.transaction.log import TransactionLog, TransactionRecord, chunks_of
from spark_azqueue.sink.transaction.names import Transaction
from spark_azqueue.sink.transaction.record import Hidden, RecordHead, placed
from spark_azqueue.sink.transaction.task import Writer
from spark_azqueue.testing import FakeQueueService, Fault


class Shop:
    """An account with two queues, and a log with the writer `nightly`."""

    def __init__(self, fake: FakeQueueService, folder: Path) -> None:
        self.fake = fake
        self.log = f"file:{folder}/txn"
        self.options = {"secret.connectionString": fake.connection_string, "queue": "orders"}
        named = {"transactionLog": self.log, "txnAppId": "nightly"}
        self.sink = self.options | named

    def transactions(self, number: int, **options: str) -> Transactions:
        return Transactions(sink_config(self.sink | {"txnVersion": str(number)} | options))

    def write(self, number: int, *bodies: str, **options: str) -> None:
        writing = self.transactions(number, **options)
        plan = writing.plan(lambda _: None)
        if plan.is_recorded(Writer()):
            given = Writer().passed_over(len(bodies), plan.log)
        else:
            config = sink_config(self.sink | {"txnVersion": str(number)} | options)
            sender = Sender(config)
            sent = sender.send(requests([(b,) for b in bodies], SinkColumns(body=0), config))
            given = Writer().prepared(sent.done, sender.hidden, sender.abandoned, plan.log)
        writing.commit(plan, [given])

    def cut_off(self, number: int, *bodies: str) -> None:
        """A write that is recorded, and shows one message."""
        self.fake.faults.add(Fault("update", "forbidden", nth=4, queue="orders"))
        with pytest.raises(AzQueueError):
            self.write(number, *bodies, parallelism="1")
        self.fake.faults.clear()

    def visible(self) -> list[str]:
        now = self.fake.clock.now()
        found = self.fake.messages("orders")
        return sorted(each.text for each in found if each.next_visible <= now)

    def finish(self, *arguments: str, **options: str) -> int:
        given = self.options | options
        written = [part for pair in given.items() for part in ("--option", "=".join(pair))]
        return main(["finish", self.log, *arguments, *written])

    def open(self) -> TransactionLog:
        config = sink_config(self.sink | {"txnVersion": "0"})
        assert config.transaction
        return TransactionLog.of(config.transaction, config.account)

    def forge(self, *queues: str, number: int = 99) -> None:
        """Somebody with the folder alone writes a record of messages of these queues."""
        hidden = [
            Hidden(Lease(QueueRef("fakeaccount", queue), "id-1", "receipt"), 0, 4_000_000_000)
            for queue in queues
        ]
        refs, _, inline = placed([chunks_of([each])[0] for each in hidden])
        transaction = Transaction(names.batch_key("fakeaccount", "orders", "nightly"), number)
        head = RecordHead(transaction, "a" * 32, "", "fakeaccount", "nightly", 1, 1, 1, 0, refs)
        assert self.open().put_head(TransactionRecord(head, inline))

    def asked(self, queue: str) -> list[str]:
        """The operations on messages of this queue, since the counters were reset."""
        found = [each for each in self.fake.log if each.queue == queue]
        return [each.op for each in found]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with FakeQueueService() as fake:
        for name in ("orders", "victim"):
            fake.create_queue(name)
        yield Shop(fake, tmp_path)


# ── what it does ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("discards", [False, True])
def test_without_execute_nothing_is_changed(
    shop: Shop, discards: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.cut_off(1, "a", "b", "c")
    before = (shop.visible(), shop.fake.count("orders"), shop.fake.requests.total())
    assert shop.finish(*["--discard"] * discards) == 0
    assert (shop.visible(), shop.fake.count("orders"), shop.fake.requests.total()) == before
    said = capsys.readouterr().out
    what = "deleted" if discards else "shown"
    assert (
        f"txnVersion 1 of txnAppId \"nightly\": to be {what}: 3 of 3 messages in 'orders'" in said
    )
    assert "Nothing was changed. To do it, add --execute." in said


def test_it_shows_what_is_hidden(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.cut_off(1, "a", "b", "c")
    assert len(shop.visible()) == 1
    assert shop.finish("--execute") == 0
    assert shop.visible() == ["a", "b", "c"]
    assert "2 messages shown, 1 were visible before" in capsys.readouterr().out
    assert shop.finish() == 0
    assert "done, 3 messages" in capsys.readouterr().out


def test_a_discard_that_fails_leaves_the_record_as_it_was(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Were it marked, the messages that are left would never be shown or deleted."""
    shop.cut_off(1, "a", "b", "c")
    shop.fake.faults.add(Fault("delete", "forbidden", queue="orders"))
    assert shop.finish("--discard", "--execute", parallelism="1") == 1
    assert (
        "0 messages deleted, 0 were visible before or are gone, 3 left" in capsys.readouterr().err
    )
    shop.fake.faults.clear()
    assert shop.finish("--execute") == 0
    assert shop.visible() == ["a", "b", "c"]


def test_one_that_is_below_another_is_named_and_only_discarded(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.cut_off(1, "a", "b", "c")
    later = shop.open()
    shop.forge("orders", number=2)  # by a process that had looked before 1 was recorded
    later.mark(next(iter(records(later))).record.head, 1, {})
    shop.write(3, "d")
    assert shop.finish() == 0
    assert shop.finish("--execute") == 1
    assert "a higher number is recorded, and of this one may be hidden 3 of 3" in (
        capsys.readouterr().err
    )
    assert len(shop.visible()) == 2
    assert shop.finish("--discard", "--execute") == 0
    assert len(shop.visible()) == shop.fake.count("orders") == 2
    shop.write(4, "e")
    assert [each.record.head.transaction.number for each in records(shop.open())] == [4]


# ── a record that was forged ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "arguments", [[], ["--discard"], ["--execute"], ["--discard", "--execute"]]
)
@pytest.mark.parametrize("queues", [["victim"], ["orders", "victim"]])
def test_no_request_goes_to_a_queue_that_is_not_named(
    shop: Shop, arguments: list[str], queues: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write(1, "a")
    shop.forge(*queues)
    shop.fake.reset_counters()
    assert shop.finish(*arguments) == (1 if "--execute" in arguments else 0)
    assert shop.fake.requests.total() == 0
    told = capsys.readouterr()
    if "--execute" in arguments:
        assert "neither --queue nor the options name ['victim']" in told.err
    else:
        assert "'victim'" in told.out


def test_queues_are_named_by_hand_where_rows_name_theirs(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.cut_off(1, "a", "b")
    del shop.options["queue"]
    with pytest.raises(SystemExit) as ended:
        shop.finish("--execute")
    assert ended.value.code == 2
    assert "name the queues whose messages are meant" in capsys.readouterr().err
    assert shop.finish("--execute", "--queue", "victim") == 1
    assert len(shop.visible()) == 1
    assert shop.finish("--execute", "--queue", "victim, orders") == 0
    assert shop.visible() == ["a", "b"]


@pytest.mark.parametrize("queues", [["victim"], ["orders", "victim"]])
def test_the_sink_shows_no_message_of_a_queue_that_it_does_not_write_to(
    shop: Shop, queues: list[str]
) -> None:
    shop.write(1, "a")
    shop.forge(*queues)
    shop.fake.reset_counters()
    for number in (99, 100):  # the same, and the one that finishes it first
        with pytest.raises(LogConflict, match=r"\['victim'\], which the options 'queue'"):
            shop.write(number, "b")
    assert not shop.asked("victim")
    assert shop.visible() == ["a"]


def test_a_discard_checks_all_before_the_first_delete(shop: Shop) -> None:
    shop.write(1, "a")
    shop.forge("orders", "victim")
    config = sink_config(shop.sink | {"txnVersion": "1"})
    assert config.transaction
    log = TransactionLog.of(config.transaction, config.account, queues=config.transaction_queues)
    (forged,) = records(log)
    shop.fake.reset_counters()
    client = QueueClient(config.account)
    with pytest.raises(LogConflict):
        discard(config, log, client, forged)
    client.close()
    assert shop.fake.requests.total() == 0


def test_a_damaged_record_costs_only_itself(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.cut_off(1, "a", "b")
    shop.sink["txnAppId"] = "other"
    shop.cut_off(1, "c", "d")
    (path, _) = sorted(Path(shop.log.removeprefix("file:"), "txn").glob("t*-*1"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert shop.finish("--execute") == 1
    assert len(shop.visible()) == 3
