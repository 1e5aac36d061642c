"""`read_new_files` on Spark: each file once, whatever the events say and whenever it stops."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from landing import TRUSTED, Landing
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_azqueue import read_new_files
from spark_azqueue.errors import LogConflict
from spark_azqueue.files.decide import Look
from spark_azqueue.files.memory import File
from spark_azqueue.files.reading import Files
from spark_azqueue.files.rules import roots_of
from spark_azqueue.testing import FakeQueueService

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

BAD = "arrived-bad"
NAMES = [
    "plain.json",
    "in/two words.json",
    "x*[y]{z}?.json",
    "100%25 #1.json",
    "a+b=c&d.json",
    "Zürich/日本 ✓.json",
    "day=2026-11-20/part.json",
]


class Reader:
    """Runs `read_new_files` to its end, as often as asked, into folders named after batches."""

    def __init__(
        self, spark: SparkSession, connection_string: str, folder: Path, **more: Any
    ) -> None:
        self.spark = spark
        self.options = {"secret.connectionString": connection_string, "queue": "arrived"}
        self.folder = folder
        self.landing = Landing(folder / "landing")
        self.landing.folder.mkdir()
        self.calls: list[tuple[int, list[str]]] = []
        self.before: Callable[[int], None] = lambda number: None
        self.after: Callable[[int], None] = lambda number: None
        self.more: dict[str, Any] = {
            "trusted": TRUSTED,
            "paths": {TRUSTED: str(self.landing.folder)},
            "format": "json",
            "schema": "id INT",
            "set_aside_queue": BAD,
            **more,
        }

    def each(self, rows: DataFrame, number: int) -> None:
        self.before(number)
        seen = rows.selectExpr("id", "_metadata.file_path AS file")
        seen.write.mode("overwrite").parquet(f"{self.folder}/rows/batch={number}")
        self.calls.append((number, sorted(row.id for row in seen.collect())))
        self.after(number)

    def run(self, **more: Any) -> None:
        given = {"checkpoint": str(self.folder / "checkpoint"), **self.more, **more}
        query = read_new_files(
            self.spark, self.options, each=self.each, available_now=True, **given
        )
        query.awaitTermination()

    def ids(self) -> list[int]:
        """What is in the table."""
        rows = self.spark.read.schema("id INT, file STRING, batch INT").parquet(
            f"{self.folder}/rows"
        )
        return sorted(row.id for row in rows.collect())


@pytest.fixture
def reader(spark: SparkSession, fake: FakeQueueService, tmp_path: Path) -> Reader:
    fake.create_queue("arrived")
    return Reader(spark, fake.connection_string, tmp_path)


def letters(fake: FakeQueueService) -> dict[str, str]:
    """What was set aside, by path or event, with the reason."""
    found = [json.loads(view.text) for view in fake.messages(BAD)]
    return {each.get("path") or each["event"]: each["reason"] for each in found}


@pytest.mark.core
def test_each_file_is_read_once_whatever_its_name_and_however_often_it_is_announced(
    reader: Reader, fake: FakeQueueService
) -> None:
    events = [
        reader.landing.write(name, f'{{"id": {number}}}\n') for number, name in enumerate(NAMES)
    ]
    encoded = [base64.b64encode(event.encode()).decode() for event in events]
    fake.put_many("arrived", [*events, *encoded])
    reader.run(include_existing_files=False)
    assert reader.ids() == [*range(len(NAMES))]

    fake.put_many("arrived", [*encoded[:3], reader.landing.write("new.json", '{"id": 99}')])
    reader.run()

    assert reader.ids() == [*range(len(NAMES)), 99]
    assert fake.count("arrived") == 0
    with pytest.raises(Exception, match="not exist"):
        fake.messages(BAD)


def test_what_was_there_before_is_read_and_its_late_event_changes_nothing(
    reader: Reader, fake: FakeQueueService
) -> None:
    events = [reader.landing.write(name, f'{{"id": {n}}}') for n, name in enumerate(NAMES)]
    reader.landing.write("_temporary/0/part.json", "no json")
    reader.landing.write("_SUCCESS", "")
    reader.run()
    assert reader.ids() == [*range(len(NAMES))]

    fake.put_many("arrived", events)
    reader.landing.write("unannounced.json", '{"id": 50}')
    reader.run()

    assert reader.ids() == [*range(len(NAMES))], "only the first start lists"


def test_what_cannot_be_read_is_set_aside_and_the_rest_goes_on(
    reader: Reader, fake: FakeQueueService
) -> None:
    landing = reader.landing
    packed = gzip.compress(b'{"id": 7}\n' * 1000)
    events = [
        *(landing.write(f"{number}.json", f'{{"id": {number}}}') for number in range(4)),
        landing.write("cut.json.gz", packed[: len(packed) // 2]),
        landing.write("whole.json.gz", gzip.compress(b'{"id": 4}')),
        landing.write("half.json", '{"id": 5}\n{"id": '),
        landing.write("other.json", '{"id": "seven"}'),
        landing.event("gone.json"),
        landing.write("12:30.json", '{"id": 8}'),
        landing.event("a%2fb.json"),
        landing.event("1.json").replace("shopdata.blob", "evil.blob"),
        "no event",
    ]
    fake.put_many("arrived", events)

    reader.run(include_existing_files=False)

    assert reader.ids() == [0, 1, 2, 3, 4]
    found = letters(fake)
    why = {path: found.pop(path) for path in ("cut.json.gz", "half.json", "other.json")}
    assert all(
        re.match(r"the file cannot be read as json: \[FAILED_READ.* Cause: \S", text)
        for text in why.values()
    ), why
    assert found.pop("gone.json") == "the file is gone"
    assert found.pop("12:30.json") == "Hadoop's paths cannot have the name of the file"
    assert found.pop("a%2fb.json") == "the path could lead out of its container"
    assert sorted(found.values()) == [
        "the blob is in no trusted container",
        "the body is neither JSON nor base64 of JSON",
    ]

    mended = landing.write("half.json", '{"id": 5}')
    fake.put_many("arrived", [events[6], mended, events[8]])
    reader.run()
    assert reader.ids() == [0, 1, 2, 3, 4, 5], "a mended file has an event of its own"


def test_a_message_of_many_events_makes_no_large_batch(
    reader: Reader, fake: FakeQueueService
) -> None:
    names = [f"{number}.json" for number in range(15)]
    events = [reader.landing.write(name, f'{{"id": {n}}}') for n, name in enumerate(names)]
    gone = [reader.landing.event(f"gone-{number}.json") for number in range(10)]
    fake.put_many("arrived", [f"[{','.join([*events, *gone])}]"])

    reader.run(include_existing_files=False, max_files_per_trigger=1)
    assert fake.count("arrived") == 15
    while fake.count("arrived"):
        reader.run(max_files_per_trigger=5)

    assert reader.ids() == [*range(15)]
    assert letters(fake) == {f"gone-{number}.json": "the file is gone" for number in range(10)}


def unknown(path: str) -> Look:
    return Look.UNKNOWN


def test_where_only_spark_can_look_it_sees_what_the_driver_would(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if one of the files is gone. Stands for a place to which Hadoop has no credential."""
    landing = reader.landing
    for name in (*NAMES, "parts/day=1/a.json", "parts/hour=2/b.json"):
        landing.write(name, "{}")
    (landing.folder / "empty.json").touch()
    (landing.folder / "nothing below").mkdir()
    there = [*NAMES, "empty.json", "in", "parts"]
    roots = roots_of(TRUSTED, reader.more["paths"])
    (place,) = roots

    def refuse(spark: SparkSession, root: str) -> bool:
        spark.sql("SELECT raise_error('no credential')").collect()
        return True

    def look(*names: str, **more: Any) -> dict[tuple[str, str], Look]:
        files = Files(roots, "json", "id INT", {}, **more)
        return {**files.look(reader.spark, [File(place, name) for name in names])}

    def look_by_spark(*names: str) -> dict[tuple[str, str], Look]:
        return look(*names, is_there=refuse, looks=lambda spark, paths: [*map(unknown, paths)])

    monkeypatch.setattr("spark_azqueue.files.reading.is_on_disk", lambda spark, path: False)
    assert look_by_spark(*there) == look(*there)
    gone = [f"gone-{number}*.json" for number in range(40)]
    assert look_by_spark(*there, *gone) == look(*there, *gone)
    assert look_by_spark(*gone) == look(*gone)
    assert look_by_spark("nothing below") == {(place, "nothing below"): Look.EMPTY}

    seen = look_by_spark("a.json", "12:30.json", "in/12:30/a.json")
    assert Look.FILE not in seen.values()
    shutil.rmtree(landing.folder)
    with pytest.raises(FileNotFoundError, match="nothing is mounted at"):
        look_by_spark(NAMES[0])
    landing.folder.mkdir()
    with pytest.raises(FileNotFoundError, match="nothing is mounted at"):
        look_by_spark(NAMES[0])


def test_settings_that_skip_files_without_a_word_change_nothing(
    reader: Reader, fake: FakeQueueService
) -> None:
    reader.landing.write("_SUCCESS", "")  # an empty folder would count as a lost mount
    fake.put_many("arrived", [reader.landing.event("gone.json")])
    names = [f"spark.sql.files.ignore{kind}Files" for kind in ("Missing", "Corrupt")]
    for name in names:
        reader.spark.conf.set(name, "true")
    try:
        reader.run(include_existing_files=False)
    finally:
        for name in names:
            reader.spark.conf.unset(name)

    assert letters(fake) == {"gone.json": "the file is gone"}


@pytest.mark.parametrize("log", ["", pytest.param("wal", marks=pytest.mark.core)])
def test_a_batch_that_died_comes_again_with_the_same_files(
    reader: Reader, fake: FakeQueueService, log: str
) -> None:
    if log:
        reader.options["writeAheadLog"] = f"file:{reader.folder}/wal"
    landing = reader.landing
    write = [landing.write(f"{number}.json", f'{{"id": {number}}}') for number in range(3)]
    fake.put_many("arrived", write)

    def die(number: int) -> None:
        raise RuntimeError("the machine died")

    reader.after = die
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="the machine died"):
            reader.run(include_existing_files=False)
    fake.put_many("arrived", [landing.write("3.json", '{"id": 3}'), write[0]])
    reader.after = lambda number: None
    reader.run()

    assert reader.calls[:3] == [(0, [0, 1, 2])] * 3
    assert reader.ids() == [0, 1, 2, 3]
    assert fake.count("arrived") == 0


def test_if_one_of_two_containers_is_lost_no_file_is_gone(
    reader: Reader, fake: FakeQueueService
) -> None:
    """An empty folder is there, as where nothing is mounted; the other container can be read."""
    other = Landing(
        reader.folder / "archive", "https://shopdata.blob.core.windows.net/archive", "archive"
    )
    other.folder.mkdir()
    reader.more |= {
        "trusted": [TRUSTED, "shopdata/archive"],
        "paths": {TRUSTED: str(reader.landing.folder), "shopdata/archive": str(other.folder)},
    }
    events = [reader.landing.write("0.json", '{"id": 0}'), other.write("1.json", '{"id": 1}')]
    fake.put_many("arrived", events)
    away = other.folder.rename(reader.folder / "away")
    other.folder.mkdir()
    with pytest.raises(StreamingQueryException, match=r"nothing is mounted at /.*1\.json"):
        reader.run(include_existing_files=False)
    other.folder.rmdir()
    away.rename(other.folder)

    reader.run()

    assert reader.ids() == [0, 1]
    with pytest.raises(Exception, match="not exist"):
        fake.messages(BAD)


def test_a_broken_file_that_speaks_of_the_network_is_set_aside(
    reader: Reader, fake: FakeQueueService
) -> None:
    forged = '{"s": "\\nCaused by: java.net.SocketTimeoutException: x", "id": "seven"}'
    texts = {"a.json": forged, "PATH_NOT_FOUND.json": '{"id": ', "b.json": '{"id": 2}'}
    fake.put_many("arrived", [reader.landing.write(name, text) for name, text in texts.items()])

    reader.run(include_existing_files=False, schema="s STRING, id INT")

    assert reader.ids() == [2]
    assert letters(fake).keys() == {"a.json", "PATH_NOT_FOUND.json"}


def test_a_file_that_cannot_be_opened_now_is_read_later(
    reader: Reader, fake: FakeQueueService
) -> None:
    """Java says that it does not exist."""
    fake.put_many("arrived", [reader.landing.write("a.json", '{"id": 1}')])
    file = reader.landing.folder / "a.json"
    away = file.rename(reader.folder / "away.json")
    file.symlink_to(file)
    (reader.landing.folder / "_SUCCESS").write_text("")
    with pytest.raises(StreamingQueryException, match=r"a\.json"):
        reader.run(include_existing_files=False)
    file.unlink()
    away.rename(file)

    reader.run()

    assert reader.ids() == [1]
    with pytest.raises(Exception, match="not exist"):
        fake.messages(BAD)


def closed(reader: Reader) -> list[str]:
    """Events of two files, of which one is in a folder that nobody may look into."""
    events = [reader.landing.write("a.json", '{"id": 1}'), reader.landing.event("closed/x.json")]
    folder = reader.landing.folder / "closed"
    folder.symlink_to(folder)  # to be denied something takes another user
    return events


def test_a_file_that_may_not_be_looked_at_stops_the_query_for_three_starts_at_most(
    reader: Reader, fake: FakeQueueService
) -> None:
    events = closed(reader)
    fake.put_many("arrived", events)
    for number in (1, 2):
        with pytest.raises(
            StreamingQueryException, match=rf"closed/x\.json.*this was start {number}"
        ):
            reader.run(include_existing_files=False)
    reader.run()

    assert reader.ids() == [1]
    assert letters(fake) == {
        "closed/x.json": "the job may not look into the folder of the file",
    }
    (reader.landing.folder / "closed").unlink()
    fake.put_many("arrived", [events[1], reader.landing.write("closed/x.json", '{"id": 2}')])
    reader.run()
    assert reader.ids() == [1, 2], "its next version has an event of its own"


def test_a_file_that_may_be_looked_at_again_is_read(reader: Reader, fake: FakeQueueService) -> None:
    fake.put_many("arrived", closed(reader))
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="may not look at"):
            reader.run(include_existing_files=False)
    (reader.landing.folder / "closed").unlink()
    reader.landing.write("closed/x.json", '{"id": 2}')

    reader.run()

    assert reader.ids() == [1, 2]
    assert [*(reader.folder / "checkpoint" / "files").glob("denied/*")] == []
    with pytest.raises(Exception, match="not exist"):
        fake.messages(BAD)


def test_of_a_body_of_broken_events_the_first_are_quarantined_and_the_others_counted(
    reader: Reader, fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    good = [reader.landing.write(f"{number}.json", f'{{"id": {number}}}') for number in range(2)]
    broken = [f'{{"n":{number}}}' for number in range(2_000)]
    mixed = f"[{','.join([good[0], *broken, good[1]])}]"
    fake.put_many("arrived", [mixed, "[1, 2, 3]", "no event"])

    reader.run(include_existing_files=False)

    assert reader.ids() == [0, 1]
    found = [json.loads(view.text) for view in fake.messages(BAD)]
    assert sorted((each["event"], each.get("more")) for each in found) == [
        *(("1", None), ("2", None), ("3", None), ("no event", None)),
        *((broken[0], None), (broken[1], None), (broken[2], 1_997)),
    ]
    assert "2,004 events name no file that is trusted, such as one in the message" in caplog.text


def test_events_are_read_in_either_form_whatever_the_messages_of_the_query_have(
    reader: Reader, fake: FakeQueueService
) -> None:
    """A body of the other form is no reason to stop."""
    reader.options["messageEncoding"] = "base64"
    plain, encoded, _ = (
        reader.landing.write(f"{number}.json", f'{{"id": {number}}}') for number in range(3)
    )
    fake.put_many("arrived", [plain, base64.b64encode(encoded.encode()).decode(), "no event"])

    reader.run()

    assert reader.ids() == [0, 1, 2]
    (letter,) = fake.messages(BAD)
    assert json.loads(base64.b64decode(letter.text))["event"] == "no event"


def test_of_two_values_in_a_line_spark_reads_the_first(
    reader: Reader, fake: FakeQueueService
) -> None:
    """The page says so."""
    fake.put_many("arrived", [reader.landing.write("a.json", '{"id": 15} {"id": 16}\n{"id": 17}')])

    reader.run(include_existing_files=False)

    assert reader.ids() == [15, 17]


def test_a_log_that_was_lost_is_not_begun_anew(reader: Reader, fake: FakeQueueService) -> None:
    fake.put_many("arrived", [reader.landing.write("0.json", '{"id": 0}')])
    reader.run()
    shutil.rmtree(reader.folder / "checkpoint" / "files")

    for _ in range(2):
        with pytest.raises(LogConflict, match="is new, but the checkpoint has batches already"):
            reader.run()

    assert fake.count("arrived") == 0, "nothing was announced"


def test_a_checkpoint_on_another_file_system_needs_a_log(
    reader: Reader, fake: FakeQueueService
) -> None:
    settings = reader.spark.sparkContext._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", "hdfs://nn:8020")
    try:
        with pytest.raises(ValueError, match="say where the log"):
            reader.run()
    finally:
        settings.set("fs.defaultFS", before)
    reader.run(checkpoint=f"file:{reader.folder}/checkpoint")

    assert (reader.folder / "checkpoint" / "files" / "log.json").exists()


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"format": "jsn"}, "DATA_SOURCE_NOT_FOUND"),
        ({"schema": "id INTT"}, "INTT"),
        ({"format": "csv", "schema": "id INTERVAL"}, "INTERVAL"),
        ({"reader_options": {"encoding": "utf-99"}}, "utf-99"),
        ({"schema": None}, "schema is missing"),
        ({"format": "parquet", "schema": None}, "schema is missing"),
    ],
)
def test_a_slip_in_the_format_sets_nothing_aside(
    reader: Reader, fake: FakeQueueService, more: dict[str, Any], error: str
) -> None:
    reader.landing.write("there.json", '{"id": 1}')

    with pytest.raises(Exception, match=error):
        reader.run(**more)

    assert fake.count("arrived") == 0
    reader.run()
    assert reader.ids() == [1]


def test_a_format_with_one_schema_needs_none(reader: Reader, fake: FakeQueueService) -> None:
    reader.landing.write("a.txt", "one line")
    lines: list[str] = []

    def each(rows: DataFrame, number: int) -> None:
        lines.extend(row.value for row in rows.collect())

    reader.each = each  # type: ignore[method-assign]
    reader.run(format="text", schema=None)

    assert lines == ["one line"]


def test_what_a_broken_event_says_is_not_in_the_drivers_log(
    reader: Reader, fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    (message,) = fake.put_many("arrived", ["the body of somebody"])

    reader.run(include_existing_files=False)

    assert "the body is neither JSON nor base64 of JSON" in caplog.text
    assert message in caplog.text
    assert "somebody" not in caplog.text


def test_an_error_of_the_users_function_sets_nothing_aside(
    reader: Reader, fake: FakeQueueService
) -> None:
    fake.put_many("arrived", [reader.landing.write("0.json", '{"id": 0}')])

    def fail(number: int) -> None:
        reader.spark.sql("SELECT raise_error('no room')").collect()

    reader.before = fail
    with pytest.raises(StreamingQueryException, match="no room"):
        reader.run(include_existing_files=False)
    reader.before = lambda number: None
    reader.run()

    assert reader.ids() == [0]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"processing_time": "5 parsecs"}, "parsecs"),
        ({"query_name": "taken", "available_now": True}, "name of a query that runs"),
    ],
)
def test_what_spark_would_refuse_at_the_end_is_refused_at_the_start(
    reader: Reader, fake: FakeQueueService, more: dict[str, Any], says: str
) -> None:
    reader.landing.write("there.json", '{"id": 1}')
    rates = reader.spark.readStream.format("rate").load().writeStream.format("noop")
    running = rates.queryName("taken").start()
    try:
        with pytest.raises(Exception, match=says):
            read_new_files(
                reader.spark,
                reader.options,
                each=reader.each,
                checkpoint=str(reader.folder / "checkpoint"),
                **{**reader.more, **more},
            )
    finally:
        running.stop()

    assert fake.count("arrived") == 0


def test_a_log_with_one_list_and_a_new_checkpoint_is_refused(
    reader: Reader, fake: FakeQueueService
) -> None:
    log = f"file:{reader.folder}/log"
    fake.put_many("arrived", [reader.landing.write("0.json", '{"id": 0}')])
    reader.run(log=log, include_existing_files=False)
    shutil.rmtree(reader.folder / "checkpoint")
    fake.put_many("arrived", [reader.landing.write("1.json", '{"id": 1}')])

    with pytest.raises(StreamingQueryException, match="the log belongs to another checkpoint"):
        reader.run(log=log)

    assert fake.count("arrived") == 1


def test_only_names_that_match_are_read(
    reader: Reader, fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "spark_azqueue")
    events = [
        reader.landing.write(name, f'{{"id": {number}}}')
        for number, name in enumerate(["a.json", "a.txt", "x.json/b.csv", "in/c.json"])
    ]
    fake.put_many("arrived", events)

    reader.run(path_glob_filter="*.{json,jsonl}", include_existing_files=False)

    assert reader.ids() == [0, 3]
    said = (
        "2 events of batch 0 are deleted unread, since path_glob_filter does not match their files"
    )
    assert f"{said}, such as shopdata/landing/a.txt" in caplog.text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"trusted": []}, "trusted is empty"),
        ({"paths": {}, "trusted": "http://127.0.0.1:1/devstoreaccount1/xyz"}, "where Spark finds"),
        ({"checkpoint": "abfss://c@shop.dfs.core.windows.net/x"}, "say where the log"),
        ({"log": "/data/log"}, "log='/data/log' is not allowed; expected blob:"),
        ({"max_files_per_trigger": 0}, "has to be above 0"),
        ({"max_file_age": 60}, "less than 14 days"),
        ({"path_glob_filter": "["}, "is no pattern"),
        ({"allow_overwrites": True}, "trusted names shopdata/landing: set"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_sent(
    reader: Reader, fake: FakeQueueService, more: dict[str, Any], says: str
) -> None:
    if "allow_overwrites" in more:
        reader.options["blobAccountUrl"] = "http://127.0.0.1:1/devstoreaccount1"
    with pytest.raises(ValueError, match=says):
        reader.run(**more)
    for option in ({"queue": "one,two"}, {"queue": "one-*"}, {"maxMessagesPerTrigger": "5"}):
        reader.options |= option
        with pytest.raises(ValueError, match=r"has to name one queue|leave the option"):
            reader.run()
    assert fake.count("arrived") == 0
    assert not (reader.folder / "checkpoint" / "files" / "log.json").exists()


def test_with_overwrites_each_version_that_is_seen_is_read_once(
    spark: SparkSession, azurite_connection_string: str, blobs: ContainerClient, tmp_path: Path
) -> None:
    """On Azurite, whose etags count; the files are in a folder beside it, as on a mount."""
    from azure.storage.blob import ContainerClient
    from azure.storage.queue import QueueClient

    trusted, name = blobs.url, f"{blobs.container_name}-log"
    logs = ContainerClient.from_connection_string(
        azurite_connection_string, name, api_version=blobs.api_version
    )
    logs.create_container()
    reader = Reader(spark, azurite_connection_string, tmp_path)
    reader.options["queue"] = queue = blobs.container_name
    reader.landing.root, reader.landing.container = blobs.url, blobs.container_name
    reader.more |= {
        "trusted": trusted,
        "paths": {trusted: str(reader.landing.folder)},
        "allow_overwrites": True,
        "set_aside_queue": None,
        "log": f"blob:{logs.container_name}/log",
        "path_glob_filter": "*.json",
    }

    def upload(path: str, text: str) -> str:
        reader.landing.write(path, text)
        etag = blobs.upload_blob(path, text, overwrite=True).get_blob_properties().etag
        reader.landing.etags[path] = etag.strip('"')
        return reader.landing.event(path)

    with QueueClient.from_connection_string(azurite_connection_string, queue) as events:
        events.create_queue()
        try:
            first = upload("a.json", '{"id": 1}')
            second = upload("a.json", '{"id": 2}')
            events.send_message(first)  # the older event alone, when the newer version is there
            reader.run(include_existing_files=False)
            events.send_message(second)
            reader.run()
            assert reader.calls == [(0, [2])]

            events.send_message(upload("a.json", '{"id": 3}'))
            events.send_message(reader.landing.event("gone.json"))
            reader.run()
        finally:
            events.delete_queue()
            logs.delete_container()

    assert reader.calls[1][1] == [3]
    assert Counter(number for number, _ in reader.calls).most_common(1)[0][1] == 1
