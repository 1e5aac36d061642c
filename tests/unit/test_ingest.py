"""What an IngestJob refuses before anything is sent, and where it puts its parts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from spark_azqueue import IngestJob
from spark_azqueue.commands.command_line import main
from spark_azqueue.commands.doctor.output_checks import Checkpoint, batches_in
from spark_azqueue.errors import CheckpointMismatch, FunctionFailed, InvalidOption, InvalidSchema
from spark_azqueue.errors.explanation import explain
from spark_azqueue.options.parse import account_options
from spark_azqueue.running.ingest_rows import CountedRows
from spark_azqueue.running.ingest_rules import (
    Record,
    check_batches,
    check_catalog,
    check_columns,
    check_names,
    check_owner,
    folder_of,
    is_path,
    log_options,
    note_of,
    owner_in,
)
from spark_azqueue.running.supervisor import PERMANENT

KEY = (
    "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=c2VjcmV0;"
    "EndpointSuffix=core.windows.net"
)
BY_KEY = {"secret.connectionString": KEY, "queue": "orders"}
BY_IDENTITY = {
    "accountUrl": "https://shop.queue.core.windows.net",
    "credential": "managedIdentity",
    "queue": "orders",
}
LAKE = "abfss://jobs@lake.dfs.core.windows.net/orders"


@pytest.mark.parametrize(
    ("given", "folder"),
    [
        ("/data/orders/", "file:/data/orders"),
        ("file:/data/orders", "file:/data/orders"),
        ("file:///data/orders", "file:/data/orders"),
        (LAKE, LAKE),
    ],
)
def test_a_folder_is_a_path_or_a_container(given: str, folder: str) -> None:
    assert folder_of(given) == folder


def test_a_relative_folder_is_of_the_working_directory(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    assert folder_of("job") == f"file:{tmp_path}/job"


@pytest.mark.parametrize(
    "given",
    [
        *(
            "/data/${user}",
            "",
            "s3a://bucket/orders",
            "hdfs://name/orders",
            "dbfs:/orders",
            "/Volumes/a/b/c",
        ),
        *("/dbfs/orders", "wasbs://jobs@shop.blob.core.windows.net/a"),
        "abfss://space@onelake.dfs.fabric.microsoft.com/orders",
    ],
)
def test_other_folders_are_refused(given: str) -> None:
    with pytest.raises(InvalidOption, match="folder=") as refused:
        folder_of(given)
    assert explain(refused.value).condition == "AZQUEUE_INVALID_OPTION"


@pytest.mark.parametrize(
    ("folder", "source", "options"),
    [
        ("file:/data/orders", BY_KEY, {"writeAheadLog": "file:/data/orders/log"}),
        (
            LAKE,
            BY_IDENTITY,
            {
                "writeAheadLog": "blob:jobs/orders/log",
                "blobAccountUrl": "https://lake.blob.core.windows.net",
            },
        ),
        (
            "abfss://jobs@shop.dfs.core.windows.net",
            BY_KEY,
            {"writeAheadLog": "blob:jobs/log"},
        ),
        (
            LAKE,
            {**BY_KEY, "secret.blobConnectionString": KEY},
            {"writeAheadLog": "blob:jobs/orders/log"},
        ),
        ("file:/data/orders", {**BY_KEY, "writeAheadLog": "blob:logs/orders"}, {}),
    ],
)
def test_the_log_is_in_the_folder(folder: str, source: dict, options: dict) -> None:
    _, account = account_options({k: v for k, v in source.items() if k != "writeAheadLog"})
    given = {name.lower(): value for name, value in source.items()}
    assert log_options(folder, account, given) == options


def test_a_key_of_another_account_cannot_write_the_log() -> None:
    _, account = account_options(BY_KEY)
    with pytest.raises(InvalidOption, match=r"'lake'.*'shop' alone.*secret\.blobConnectionString"):
        log_options(LAKE, account, {})


def test_a_folder_that_a_log_cannot_have_is_named() -> None:
    _, account = account_options(BY_IDENTITY)
    with pytest.raises(InvalidOption, match="would be blob:jobs/a b/log"):
        log_options("abfss://jobs@shop.dfs.core.windows.net/a b", account, {})


@pytest.mark.parametrize(
    ("into", "kind", "current", "refused"),
    [
        ("orders", "in-memory", "spark_catalog", True),
        ("shop.orders", "in-memory", "spark_catalog", True),
        ("spark_catalog.shop.orders", "in-memory", "lake", True),
        ("orders", "in-memory", "lake", False),
        ("lake.shop.orders", "in-memory", "spark_catalog", False),
        ("orders", "hive", "spark_catalog", False),
    ],
)
def test_a_table_that_the_next_process_would_not_find_is_refused(
    into: str, kind: str, current: str, refused: bool
) -> None:
    if refused:
        with pytest.raises(InvalidOption, match=r"catalog in memory.*into='\./"):
            check_catalog(into, kind, current)
    else:
        check_catalog(into, kind, current)


def test_a_name_is_a_table_and_the_rest_a_path() -> None:
    assert not is_path("shop.orders")
    assert all(map(is_path, ("/data/orders", "data/orders", "file:orders", LAKE)))


@pytest.mark.parametrize(
    ("planned", "committed", "newest"), [(-1, -1, -1), (3, 3, 3), (4, 3, 3), (4, 3, 4), (0, -1, -1)]
)
def test_folder_and_output_fit(planned: int, committed: int, newest: int) -> None:
    check_batches("/out", "/job", Checkpoint(planned, committed, "q"), newest)


def test_a_checkpoint_without_its_id_is_refused() -> None:
    check_batches("/out", "/job", Checkpoint(-1, -1, ""), -1)
    with pytest.raises(CheckpointMismatch, match="lacks its file 'metadata'"):
        check_batches("/out", "/job", Checkpoint(0, -1, ""), -1)


@pytest.mark.parametrize(
    ("planned", "committed", "newest", "text"),
    [
        (
            -1,
            -1,
            0,
            "has batches up to 0, and the checkpoint in /job is new: rows of batches 0 to 0 would"
            " be lost, or written twice",
        ),
        (3, 3, 5, "ends at batch 3: rows of batches 4 to 5 would be lost"),
        (3, 3, -1, "has committed batch 3, and the output /out has none of its batches"),
        (4, 3, 2, "has committed batch 3, and the output /out has batches up to 2"),
    ],
)
def test_folder_and_output_do_not_fit(planned: int, committed: int, newest: int, text: str) -> None:
    with pytest.raises(CheckpointMismatch, match=text) as refused:
        check_batches("/out", "/job", Checkpoint(planned, committed, "q"), newest)
    found = explain(refused.value)
    assert found.condition == "AZQUEUE_INGEST_MISMATCH"
    assert found.error in PERMANENT, "no restart helps"
    assert found.sentence.count("; or") == 2, "three ways out"


RECORD = Record("shop", ("orders",), "file:/out", "parquet")


def test_a_record_survives() -> None:
    assert Record.read(RECORD.to_bytes(), "f") == RECORD
    RECORD.check("/job", RECORD)
    more = RECORD.__class__(**{**RECORD.__dict__, "queues": ("returns", "orders")})
    RECORD.check("/job", more)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"account": "other"},
            "belongs to a job of the account 'shop', and this one names 'other'",
        ),
        ({"into": "file:/out2"}, "of the output 'file:/out'"),
        ({"format": "delta"}, "of the format 'parquet'"),
        ({"queues": ("returns",)}, "a job of the queue 'orders', which this one does not name"),
    ],
)
def test_a_folder_of_another_job_is_refused(changed: dict, text: str) -> None:
    with pytest.raises(CheckpointMismatch, match=text):
        RECORD.check("/job", Record(**{**RECORD.__dict__, **changed}))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version": 1}', b'{"version": 2}', b"\xff"])
def test_a_record_that_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointMismatch, match=r"/job/ingest\.json is not as this release"):
        Record.read(data, "/job/ingest.json")


def test_an_output_names_the_folder_of_its_job() -> None:
    assert owner_in(note_of("file:/job"), "n") == "file:/job"
    assert owner_in(b"", "n") == "", "its writer was killed"
    for owner in ("", "file:/job"):
        check_owner("/out", owner, "file:/job", "…")
    with pytest.raises(CheckpointMismatch, match=r"in file:/other, and .* in file:/job.*delete x"):
        check_owner("/out", "file:/other", "file:/job", "delete x")


@pytest.mark.parametrize(
    "note", [b"{", b"[]", b"1", b'{"version": 2, "folder": "a"}', b'{"version": 1}', b"\xff", b"\0"]
)
def test_a_note_that_cannot_be_read_is_refused(note: bytes) -> None:
    with pytest.raises(CheckpointMismatch, match="/out/_azqueue_ingest is not as this release"):
        owner_in(note, "/out/_azqueue_ingest")


def test_a_record_of_a_later_release_is_refused() -> None:
    later = json.dumps(json.loads(RECORD.to_bytes()) | {"version": 2}).encode()
    with pytest.raises(CheckpointMismatch, match="or upgrade"):
        Record.read(later, "f")


@pytest.mark.parametrize(
    "name",
    ["message_id", "Message_Row", "queue", "insertion_time", "ERROR", "body", "_corrupt_record"],
)
def test_a_column_may_not_have_a_name_of_the_table(name: str) -> None:
    with pytest.raises(InvalidSchema, match=f"'{name}'"):
        check_names([("order_id", "bigint"), (name, "string")])


def test_a_column_may_be_there_once() -> None:
    with pytest.raises(InvalidSchema, match="the schema has it twice"):
        check_names([("order_id", "bigint"), ("Order_ID", "int")])


HAS = [("message_id", "string"), ("order_id", "bigint")]


def test_columns_may_be_added_and_moved() -> None:
    check_columns(
        "/out", HAS, [("note", "string"), ("order_id", "bigint"), ("message_id", "string")]
    )
    check_columns("/out", [], HAS)


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (HAS[:1], r"has the column 'order_id' \(bigint\), and the job does not"),
        ([*HAS[:1], ("Order_ID", "bigint")], "'order_id', and the job writes 'Order_ID'"),
        ([*HAS[:1], ("order_id", "int")], "'order_id' as bigint, and the job as int"),
    ],
)
def test_columns_may_not_end_or_change(now: list, text: str) -> None:
    with pytest.raises(InvalidSchema, match=text):
        check_columns("/out", HAS, now)


def test_batches_are_found_among_what_spark_keeps() -> None:
    names = ["9.compact", "10", ".10.crc", "11", "11.compact.tmp", "x", ".9.compact.crc"]
    assert batches_in(names) == [9, 10, 11]
    assert batches_in(()) == []


class Rows:
    """A record batch, as far as it is looked at."""

    def __init__(self, *reasons: str | None) -> None:
        self.num_rows, self.num_columns = len(reasons), 1
        self._reasons = SimpleNamespace(
            null_count=reasons.count(None), to_pylist=lambda: list(reasons)
        )

    def column(self, number: int) -> SimpleNamespace:
        assert number == 0
        return self._reasons


def test_rows_are_passed_on_until_too_many_in_a_row_are_bad() -> None:
    given = [Rows("a", "b"), Rows(None, "c"), Rows("d"), Rows(None, None)]
    assert list(CountedRows(3).through(iter(given))) == given
    assert list(CountedRows(None).through(iter([Rows(*"abcdef")])))
    with pytest.raises(FunctionFailed, match=r"3 messages in a row are bad.*last: d") as stopped:
        list(CountedRows(3).through(iter([Rows(None, "b"), Rows("c"), Rows("d")])))
    assert explain(stopped.value).condition == "AZQUEUE_NOT_OF_THE_SCHEMA"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"format": "csv"}, "format='csv'"),
        ({"into": ""}, "into=''"),
        ({"into": None}, "into=None"),
        ({"limit": 0}, "limit=0"),
        ({"limit": True}, "limit=True"),
        ({"apply": print}, "apply together with returns"),
        ({"returns": "a INT"}, "apply together with returns"),
        ({"apply": print, "returns": "a INT", "schema": "b INT"}, "apply together with returns"),
        ({"source": "orders"}, "source=…"),
        ({"folder": "s3a://bucket/a"}, "folder='s3a://bucket/a'"),
    ],
)
def test_arguments_are_checked_when_a_job_is_made(given: dict, text: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        IngestJob(**{"source": BY_KEY, "folder": "/job", "into": "/out", **given})
    assert text in str(refused.value)
    assert "c2VjcmV0" not in str(refused.value)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--folder", "/job"],
        ["--folder", "/job", "--into", "/out", "--format", "csv"],
        ["--folder", "/job", "--into", "/out", "--limit", "0"],
    ],
)
def test_a_malformed_command_line_ends_with_status_2(arguments: list, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ingest", *arguments])
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_wrong_arguments_end_with_status_2_before_spark_starts(capsys) -> None:
    assert main(["ingest", "--folder", "s3a://bucket/job", "--into", "/out"]) == 2
    assert "AZQUEUE_INVALID_OPTION" in capsys.readouterr().err
