"""What `settle` writes, in which order, without a Spark. tests/examples has it with one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_azqueue import DeadLetter, Retry, Settled, backoff, settle
from spark_azqueue.errors import InvalidOption, InvalidRow, InvalidSchema
from spark_azqueue.options.choices import OnStaleReceipt, Operation
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.fields import marked
from spark_azqueue.sink import decided
from spark_azqueue.sink.requests import UpdateRow
from spark_azqueue.sink.tally import Sent

AZURE = {"secret.connectionString": "AccountName=shop;AccountKey=c2VjcmV0"}
MARKED = marked("AgAAAA==")


class Writes:
    """A session that notes what is written and sent, and fails at the one with this number."""

    def __init__(self) -> None:
        self.made: list[tuple[list, Any, Any]] = []
        self.fails_at = -1
        self.outcomes: list[Any] = []
        self.stale: set[str] = set()  # ids of messages whose receipts are stale

    def sender(self, config: SinkConfig) -> Any:
        """In place of a `Sender`."""

        def send(requests: Any) -> Sent:
            if len(self.made) == self.fails_at:
                raise RuntimeError("the write failed")
            sent = list(requests)
            rows = [
                (*each.lease[1:], each.lease.queue.name)
                + ((each.visibility_s,) if isinstance(each, UpdateRow) else ())
                for each in sent
            ]
            self.made.append((rows, config.operation, config.on_stale_receipt))
            stale = sum(each.lease.message_id in self.stale for each in sent)
            return Sent(len(sent) - stale, stale)

        return SimpleNamespace(send=send)

    def createDataFrame(self, rows: list, schema: str) -> Any:
        def save() -> None:
            if len(self.made) == self.fails_at:
                raise RuntimeError("the write failed")
            self.made.append((rows, schema, said))

        said: dict[str, str] = {}
        writer = SimpleNamespace(save=save)
        writer.format = lambda name: writer if name == "azqueue" else None
        writer.mode = lambda mode: writer if mode == "append" else None
        writer.options = lambda **options: said.update(options) or writer
        return SimpleNamespace(write=writer)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    made = Writes()
    monkeypatch.setattr(decided, "Sender", made.sender)
    return made


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch, writes: Writes) -> Any:
    """A Connect DataFrame with a source's columns, no server, and these verdicts in its rows."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import Read

    kinds = {
        "message_id": "string",
        "pop_receipt": "string",
        "queue": "string",
        "body": "string",
        "dequeue_count": "int",
    }
    monkeypatch.setattr(DataFrame, "columns", property(lambda _: list(kinds)))
    monkeypatch.setattr(DataFrame, "dtypes", property(lambda _: list(kinds.items())))
    monkeypatch.setattr(DataFrame, "sparkSession", property(lambda _: writes))
    outcomes = writes.outcomes
    outcomes += [
        SimpleNamespace(
            message_id=f"m{number}",
            pop_receipt=f"r{number}",
            queue="orders",
            outcome=outcome,
            delay=30 if outcome == "retry" else None,
            reason="why" if outcome == "dead" else None,
            body="tea" if outcome == "dead" else None,
            stored=None,
        )
        for number, outcome in enumerate(["done", "retry", "dead", "left", "done"])
    ]

    def collect(frame: Any) -> list:
        frame._plan.plan(None)  # it can be made
        return outcomes

    monkeypatch.setattr(DataFrame, "collect", collect)
    return DataFrame(Read("messages"), SimpleNamespace(client=None))


def conditions() -> dict[str, Any]:
    from pyspark.sql import functions as F

    return {
        "done": F.col("status") == 200,
        "retry": Retry(F.lit(True), backoff()),
        "dead": DeadLetter(F.col("dequeue_count") > 8, "orders-dead", F.lit("too often")),
    }


ENVELOPE = (
    '{"reason":"why","queue":"orders","message_id":"m2","body":"tea","body_encoding":"text",'
    '"written_by":"spark-azqueue"}'
)


def receipt(number: int) -> tuple[str, str, str]:
    return f"m{number}", f"r{number}", "orders"


def test_copies_come_before_deletes_and_then_the_delays(batch: Any, writes: Writes) -> None:
    assert settle(batch, AZURE, **conditions()) == Settled(done=2, retry=1, dead=1, left=1)

    copies, dead, done, later = writes.made
    assert copies == (
        [(ENVELOPE,)],
        "body string",
        AZURE | {"queue": "orders-dead", "timeToLive": "-1"},
    )
    assert dead == ([receipt(2)], Operation.DELETE, OnStaleReceipt.IGNORE)
    assert done == ([receipt(0), receipt(4)], Operation.DELETE, OnStaleReceipt.IGNORE)
    assert later == ([(*receipt(1), 30)], Operation.UPDATE, OnStaleReceipt.IGNORE)


@pytest.mark.parametrize("fails_at", [0, 1, 2, 3])
def test_after_a_write_that_fails_nothing_follows(
    batch: Any, writes: Writes, fails_at: int
) -> None:
    writes.fails_at = fails_at

    with pytest.raises(RuntimeError, match="the write failed"):
        settle(batch, AZURE, **conditions())
    assert len(writes.made) == fails_at


def test_options_of_new_messages_go_with_the_copies_alone(batch: Any, writes: Writes) -> None:
    new = {
        "timeToLive": "60",
        "createqueue": "true",
        "visibilityDelay": "5",
    }
    of_rows = {"messageFormat": "cloudevents", "onRowError": "queue", "rowErrorQueue": "rejects"}
    given = {**AZURE, **new, **of_rows, "onStaleReceipt": "fail", "Queue": "orders"}
    settle(batch, given, **conditions())

    copies, *others = (said for _, _, said in writes.made)
    assert copies == AZURE | new | {"queue": "orders-dead"}
    assert others == [OnStaleReceipt.FAIL] * 3


@pytest.mark.parametrize(
    ("stale", "expected"),
    [
        ({"m0", "m1", "m2", "m4"}, Settled(left=1, stale=4)),
        ({"m0"}, Settled(done=1, retry=1, dead=1, left=1, stale=1)),
        ({"m1"}, Settled(done=2, dead=1, left=1, stale=1)),
        ({"m2"}, Settled(done=2, retry=1, left=1, stale=1)),
    ],
)
def test_what_the_service_refused_is_counted_as_stale(
    batch: Any, writes: Writes, stale: set[str], expected: Settled
) -> None:
    writes.stale = stale
    assert settle(batch, AZURE, **conditions()) == expected


def test_dead_messages_do_not_go_where_they_came_from(batch: Any, writes: Writes) -> None:
    dead = DeadLetter(conditions()["dead"].when, "orders")
    with pytest.raises(InvalidOption, match="from which rows of this batch were read"):
        settle(batch, AZURE, **conditions() | {"dead": dead})
    assert not writes.made


@pytest.mark.parametrize("outcome", ["done", "retry", "dead", "left"])
@pytest.mark.parametrize(
    ("receipt", "error", "text"),
    [
        (MARKED, InvalidOption, "deleteOnCommit=true .* set deleteOnCommit=false at the stream"),
        (None, InvalidRow, "message m9 has no pop_receipt; .* a peek and readLog do not"),
    ],
)
def test_rows_that_are_not_the_users_are_refused_before_anything_changes(
    batch: Any, writes: Writes, outcome: str, receipt: Any, error: type[Exception], text: str
) -> None:
    last = SimpleNamespace(
        **{**vars(writes.outcomes[0]), "message_id": "m9", "pop_receipt": receipt}
    )
    last.outcome = outcome
    writes.outcomes.append(last)

    with pytest.raises(error, match=text):
        settle(batch, AZURE, **conditions())
    assert writes.made == []


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("done", "done"), Settled(done=1)),
        (("done", "retry"), Settled(retry=1)),
        (("retry", "done", "dead"), Settled(retry=1)),
        (("dead", "done", "dead"), Settled(dead=1)),
        (("done", "left", "retry"), Settled(left=1)),
    ],
)
def test_of_several_rows_of_a_message_the_one_counts_that_keeps_it_longest(
    batch: Any,
    writes: Writes,
    caplog: pytest.LogCaptureFixture,
    outcomes: tuple[str, ...],
    expected: Settled,
) -> None:
    by_verdict = {row.outcome: row for row in writes.outcomes}
    writes.outcomes[:] = [
        SimpleNamespace(**{**vars(by_verdict[each]), "message_id": "m0", "pop_receipt": "r0"})
        for each in outcomes
    ]

    assert settle(batch, AZURE, **conditions()) == expected
    sent = [rows for rows, said, _ in writes.made if isinstance(said, Operation)]
    assert len(sent) == (0 if expected.left else 1)
    differ = "1 messages have several rows, for which the conditions of settle differ"
    assert (differ in caplog.text) == (len(set(outcomes)) > 1)


def test_the_longest_delay_of_several_rows_counts(batch: Any, writes: Writes) -> None:
    (row,) = (row for row in writes.outcomes if row.outcome == "retry")
    writes.outcomes[:] = [SimpleNamespace(**{**vars(row), "delay": d}) for d in (None, 50, 20)]

    settle(batch, AZURE, **conditions())
    assert writes.made[0][0] == [(*receipt(1), 50)]


def test_without_conditions_the_plan_can_be_made_too(batch: Any) -> None:
    settle(batch, AZURE)
    settle(batch, AZURE, dead=DeadLetter(conditions()["done"], "orders-dead"))
    settle(batch, AZURE, retry=Retry(conditions()["done"]))


@pytest.mark.parametrize("gone", ["message_id", "pop_receipt", "queue", "body"])
def test_a_missing_column_is_named_before_anything_is_written(
    batch: Any, writes: Writes, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    kept = [name for name in batch.columns if name != gone]
    monkeypatch.setattr(type(batch), "columns", property(lambda _: kept))

    with pytest.raises(InvalidSchema, match=f"without the column '{gone}': keep message_id"):
        settle(batch, AZURE, **conditions())
    assert writes.made == []


def test_what_cannot_be_copied_is_left_and_what_leaves_no_room_is_copied_bare(
    batch: Any, writes: Writes, caplog: pytest.LogCaptureFixture
) -> None:
    (dead,) = (row for row in writes.outcomes if row.outcome == "dead")
    large = SimpleNamespace(**{**vars(dead), "message_id": "large", "body": "y" * 65_536})
    lost = SimpleNamespace(**{**vars(dead), "message_id": "lost", "body": None})
    writes.outcomes[:] = [lost, large, dead]
    options = {**AZURE, "messageEncoding": "base64", "onRowError": "queue", "rowErrorQueue": "bad"}

    found = settle(batch, options, **conditions())

    assert found == Settled(dead=2, left=1, not_copied=1)
    envelopes, bare, deletes = writes.made
    sink = AZURE | {"queue": "orders-dead", "timeToLive": "-1"}
    assert envelopes == ([(ENVELOPE,)], "body string", sink | {"messageEncoding": "base64"})
    assert bare == ([("y" * 65_536,)], "body string", sink | {"messageEncoding": "none"})
    assert [row[0] for row in deletes[0]] == ["large", "m2"]
    assert "1 of 3 dead messages cannot be copied into 'orders-dead'" in caplog.text
    assert "message lost of queue 'orders': [AZQUEUE_INVALID_ROW] its body is null" in caplog.text
    assert "message large of queue 'orders': why" in caplog.text


def test_if_nothing_can_be_copied_nothing_is_written(batch: Any, writes: Writes) -> None:
    (dead,) = (row for row in writes.outcomes if row.outcome == "dead")
    writes.outcomes[:] = [SimpleNamespace(**{**vars(dead), "body": None})]

    assert settle(batch, AZURE, **conditions()) == Settled(left=1, not_copied=1)
    assert writes.made == []


def test_a_body_that_is_not_as_the_source_gives_it_is_refused(
    batch: Any, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [(n, "struct<a:int>" if n == "body" else "string") for n in batch.columns]
    monkeypatch.setattr(type(batch), "dtypes", property(lambda _: kinds))

    with pytest.raises(InvalidSchema, match="keep the column 'body' of the source unchanged"):
        settle(batch, AZURE, **conditions())
    assert writes.made == []
