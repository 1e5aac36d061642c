"""transactionLog on real Spark: whatever is repeated or fails, each row is visible once."""

from __future__ import annotations

import pytest
from lines import read_all
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.commands.command_line import main as command_line
from spark_azqueue.testing.blobs import FakeBlobService
from spark_azqueue.testing.faults import Fault

from .chains import SENT, Chain

DAY_S = 24 * 3600


# ── what is repeated ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("batches", [1, pytest.param(5, marks=pytest.mark.core)])
def test_batches_that_come_again_are_written_once(chain: Chain, batches: int) -> None:
    """Spark's commits are lost, as a kill loses the last one and a rollback several."""
    sent = [f"m{number}" for number in range(140)]  # seven batches
    chain.send(sent)
    chain.run()
    assert chain.visible() == sorted(sent)
    lost = ("commits",) if batches == 1 else ("offsets", "commits")

    chain.streams.roll_back(batches, lost)
    puts = chain.fake.statuses["put", 201]
    chain.run()

    assert chain.visible() == sorted(sent)
    assert chain.fake.statuses["put", 201] == puts, "what is recorded is not put again"
    chain.send(["later"])
    chain.run()
    assert chain.visible() == sorted([*sent, "later"])
    assert chain.hidden == 0


def test_batch_writes_with_the_same_number_are_written_once(chain: Chain) -> None:
    other = f"{chain.target[:40]}-other"
    chain.fake.create_queue(other)
    for _ in range(2):  # the job runs again
        chain.write(["a", "b"], 7)
        chain.write(["c"], 7, queue=other)
    with pytest.raises(PySparkException, match=r"TRANSACTION_NOT_WRITTEN.*txnVersion 6"):
        chain.write(["never written"], 6)
    chain.write(["passed over"], 6, failOnDataLoss="false")
    assert (chain.visible(), chain.visible(other)) == (["a", "b"], ["c"])

    chain.write(["d"], 8)
    assert chain.visible() == ["a", "b", "d"]
    kinds = [name.count("-") for name in chain.objects()]
    assert kinds == [1, 3, 1, 3], "of each writer, one head and its mark stay"
    chain.write(["other rows"], 7)
    assert chain.visible() == ["a", "b", "d"], "7 is known to be written"


def test_foreach_batch_writes_two_queues_once(chain: Chain) -> None:
    other = f"{chain.target[:40]}-other"
    chain.fake.create_queue(other)
    fails = [True]

    def write(batch: DataFrame, number: int) -> None:
        for name in (chain.target, other):
            chosen = {"queue": name, "txnAppId": "stage", "txnVersion": str(number)}
            batch.select("body").write.format("azqueue").mode("append").options(
                **chain.sink(**chosen)
            ).save()
        if fails and number == 1:
            fails.clear()
            raise ValueError("once")

    def start() -> StreamingQuery:
        return chain.streams.each_batch(chain.source(), write, availableNow=True)

    chain.send()
    with pytest.raises(PySparkException, match="once"):
        read_all(start)
    read_all(start)
    assert (chain.visible(), chain.visible(other)) == (sorted(SENT), sorted(SENT))


# ── what fails ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.core
def test_lost_answers_make_no_copy(chain: Chain) -> None:
    for op in ("put", "update"):
        chain.fake.faults.add(Fault(op, "reply_lost", every=7, queue=chain.target))
        chain.fake.faults.add(Fault(op, "busy_503", every=11, queue=chain.target, seconds=0))
    chain.send()
    chain.run()

    assert chain.visible() == sorted(SENT)
    assert chain.hidden > 0, "copies whose answers were lost stay hidden"
    chain.fake.clock.advance(6 * DAY_S)
    assert len(chain.visible()) == len(SENT)


def test_a_task_that_fails_leaves_nothing(chain: Chain) -> None:
    chain.fake.faults.add(Fault("put", "forbidden", nth=31, queue=chain.target))
    with pytest.raises(PySparkException, match=r"put hidden: [1-9]\d* deleted, 0 left"):
        chain.write(list(SENT), 1, tasks=1)
    assert chain.fake.requests["put"] > 30
    assert chain.fake.count(chain.target) == 0

    chain.write(["a", "b", "c"], 1)
    assert chain.visible() == ["a", "b", "c"]


def test_a_show_that_fails_is_finished_by_the_same_write(chain: Chain) -> None:
    """The commit raises after the record: Spark aborts, and must not delete what is recorded."""
    fail_shows(chain, 3)
    with pytest.raises(PySparkException, match="could not show message"):
        chain.write(["a", "b", "c"], 1, tasks=1)
    assert (chain.visible(), chain.hidden) == ([], 3)

    chain.write(["other rows that do not count"], 1)
    assert (chain.visible(), chain.hidden) == (["a", "b", "c"], 0)


def fail_shows(chain: Chain, messages: int) -> None:
    """Refuse the updates that show so many messages of a write of one task, and then no more.

    Three updates come before them: the plan, the task and the commit each ask for the right to.
    """
    for place in range(messages):
        chain.fake.faults.add(Fault("update", "forbidden", nth=4 + place, queue=chain.target))


@pytest.mark.core
def test_a_log_in_blobs(chain: Chain) -> None:
    with FakeBlobService() as blobs:
        account = f"AccountName=fakeaccount;AccountKey=a2V5;BlobEndpoint={blobs.url}"
        place = {"transactionLog": "blob:logs/chain", "secret.blobConnectionString": account}
        chain.send()
        chain.run(**place)
        assert chain.visible() == sorted(SENT)
        chain.streams.roll_back(1, ("commits",))
        chain.run(**place)
        assert chain.visible() == sorted(SENT)
        assert [name for name in blobs.names("logs/chain/txn/") if name.count("-") == 1]


# ── what is lost, or wrong ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def unfinished(chain: Chain) -> Chain:
    """A write that was recorded, and not shown."""
    fail_shows(chain, 3)
    with pytest.raises(PySparkException):
        chain.write(["a", "b", "c"], 1, tasks=1)
    assert (chain.visible(), chain.hidden) == ([], 3)
    return chain


def test_finish_shows_what_a_record_holds(
    unfinished: Chain, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--option", f"secret.connectionString={unfinished.fake.connection_string}"]

    command_line(["--as", "sink", unfinished.target, *options, *_log(unfinished)])
    said = capsys.readouterr().out
    assert 'txnVersion 1 of txnAppId "loader"' in said
    assert "3 of 3 messages" in said
    queue = ["--queue", unfinished.target]
    assert command_line(["finish", unfinished.log, *queue, *options]) == 0
    assert "to be shown: 3 of 3 messages" in capsys.readouterr().out
    assert unfinished.visible() == []
    assert command_line(["finish", unfinished.log, *queue, "--execute", *options]) == 0
    assert "3 messages shown" in capsys.readouterr().out
    assert unfinished.visible() == ["a", "b", "c"]
    assert command_line(["finish", unfinished.log, *options]) == 0
    assert "done, 3 messages" in capsys.readouterr().out


def _log(chain: Chain) -> list[str]:
    return ["--option", f"transactionLog={chain.log}"]


MISTAKES = {
    "a write-ahead log's folder": ({"transactionLog": "file:FOLDER/wal"}, "write-ahead log"),
    "no id": ({"txnAppId": ""}, "txnAppId"),
    "no number": ({"txnVersion": ""}, "txnVersion"),
    "30 days": ({"timeToLive": "30d"}, "7 days"),
    "never": ({"timeToLive": "-1"}, "7 days"),
    "updates": ({"operation": "delete"}, "transactionLog"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_error_before_anything_is_sent(chain: Chain, mistake: str) -> None:
    chain.send()
    options, expected = MISTAKES[mistake]
    if "transactionLog" in options:
        chain.run()
    options = {name: text.replace("FOLDER", str(chain.folder)) for name, text in options.items()}
    puts = chain.fake.requests["put"]
    rows = chain.spark.createDataFrame([("a",)], "body string")
    given = chain.sink(txnAppId="loader", txnVersion="1") | options
    given = {name: text for name, text in given.items() if text}
    with pytest.raises(PySparkException, match=expected):
        rows.write.format("azqueue").mode("append").options(**given).save()
    assert chain.fake.requests["put"] == puts


def test_a_right_to_send_alone_is_refused_before_anything_is_put(chain: Chain) -> None:
    sas = chain.fake.sas(letters="a")
    account = {"accountUrl": chain.fake.url, "sasToken": sas}
    options = chain.sink(txnAppId="loader", txnVersion="1") | account
    del options["secret.connectionString"]
    rows = chain.spark.createDataFrame([("a",)], "body string")
    with pytest.raises(PySparkException, match=r"PERMISSION_MISSING|ACCESS_DENIED"):
        rows.write.format("azqueue").mode("append").options(**options).save()
    assert chain.fake.requests["put"] == 0


def test_options_of_a_batch_write_are_refused_in_a_stream(chain: Chain) -> None:
    with pytest.raises(PySparkException, match=r"are for df.write"):
        chain.run(txnAppId="loader", txnVersion="1")


# ── with other options ────────────────────────────────────────────────────────────────────────────


def test_delays_times_to_live_and_rows_set_aside(chain: Chain) -> None:
    aside = f"{chain.target[:40]}-aside"
    chain.fake.create_queue(aside)
    rows = chain.spark.createDataFrame(
        [("now", None, None), ("later", 600, None), ("short", None, 60), (None, None, None)],
        "body string, visibility_delay int, time_to_live int",
    )
    options = chain.sink(txnAppId="loader", txnVersion="1", onRowError="queue", rowErrorQueue=aside)
    rows.write.format("azqueue").mode("append").options(**options).save()

    assert chain.visible() == ["now", "short"]
    assert len(chain.visible(aside)) == 1
    chain.fake.clock.advance(602)
    assert chain.visible() == ["later", "now", "short"]
    chain.fake.clock.advance(DAY_S)
    assert chain.visible() == ["later", "now"], "its own minute, and a day"


def test_large_bodies_go_by_way_of_blobs(chain: Chain) -> None:
    with FakeBlobService() as blobs:
        account = f"AccountName=fakeaccount;AccountKey=a2V5;BlobEndpoint={blobs.url}"
        large = {"largeBody": "blob", "blobContainer": "bodies"}
        large |= {"secret.blobConnectionString": account}
        for _ in range(2):
            chain.write(["x" * 100_000, "small"], 1, **large)
        assert len(chain.visible()) == 2
        assert len(blobs.names("bodies/")) == 1
