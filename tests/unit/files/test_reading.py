"""Which files cannot be read, and why; and what is announced of a listing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from fake_storage import FORGED, Container, Reader, Thing, cannot_read, refused, sparks_error
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, SparkRuntimeException

from spark_azqueue.files.decide import EMPTIED, GONE, NO_FILE, Look, listed_by
from spark_azqueue.files.listing import Listed, Window, event, in_containers, to_announce
from spark_azqueue.files.memory import Bounds, File, Memory
from spark_azqueue.files.reading import Files, failing
from spark_azqueue.files.rules import Rules, roots_of

HERE = "shopdata/landing"
RULES = Rules(roots_of(HERE))
(ROOT,) = RULES.roots.values()


@given(size=st.integers(0, 70), bad=st.sets(st.integers(0, 69), max_size=6))
def test_each_that_fails_is_found_and_no_other(size: int, bad: set[int]) -> None:
    items, tries = list(range(size)), []

    def fails(some: Sequence[int]) -> Exception | None:
        tries.append(some)
        here = bad & set(some)
        return ValueError(min(here)) if here else None

    found = [*failing(items, fails)]

    assert found == sorted(bad & set(items))
    assert len(tries) <= 1 + 2 * 7 * len(bad)


class Storage:
    """Spark's readers over files of one container. Each read asks `answer`, and counts it.

    answer: gets a path, whether its bytes alone are read, and how many reads there were before;
    returns an error, or None if this read succeeds.
    """

    def __init__(self, answer: Callable[[str, bool, int], Exception | None]) -> None:
        self.answer = answer
        self.reads = 0
        self.looks = 0
        self.of_nothing: Exception | None = None
        self.is_there: Callable[[int], bool] = lambda look: True
        self.at: Callable[[str], Look] = lambda path: Look.FILE

    def unreadable(self, *paths: str) -> dict[str, str]:
        files = Files(RULES.roots, "json", "id INT", {}, self._look, self._looks)
        steps = files.unreadable(self, [File(HERE, path) for path in paths])  # type: ignore[arg-type]
        return {each.file.path: each.reason for bad in steps for each in bad}

    def _looks(self, spark: object, paths: Sequence[str]) -> list[Look]:
        return [self.at(path.removeprefix(ROOT.spark)) for path in paths]

    def _look(self, spark: object, root: str) -> bool:
        assert root == ROOT.spark
        self.looks += 1
        return self.is_there(self.looks)

    @property
    def read(self) -> Reading:
        return Reading(self)


class Reading(Reader):
    def __init__(self, storage: Storage) -> None:
        super().__init__(ROOT)
        self.storage = storage

    def save(self) -> None:
        storage = self.storage
        if not self.paths and storage.of_nothing:
            raise storage.of_nothing
        for path in self.paths:
            if error := storage.answer(path, self.bytes_alone, storage.reads):
                storage.reads += 1
                raise error
        storage.reads += 1


BUSY = cannot_read("java.io.IOException", "Input/output error")
BROKEN = cannot_read("com.fasterxml.jackson.core.JsonParseException", "no JSON")
MISSING = cannot_read("java.io.FileNotFoundException", "x (Permission denied)")
TIMEOUT = cannot_read("java.net.SocketTimeoutException", "Read timed out")


@given(down=st.integers(1, 14), pause=st.integers(0, 6))
def test_a_storage_that_recovers_sets_no_good_file_aside(down: int, pause: int) -> None:
    """It is down for some reads, up for some, down for as many again: an outage at any step."""

    def answer(path: str, bytes_alone: bool, read: int) -> Exception | None:
        return BUSY if read < down or down + pause <= read < 2 * down + pause else None

    with suppress(SparkRuntimeException):
        assert Storage(answer).unreadable("a", "b", "c") == {}


@given(up=st.integers(0, 40))
def test_if_the_way_to_a_storage_fails_nothing_is_set_aside(up: int) -> None:
    """Also if only Spark's reader of the format meets it, as when it reads more than once."""
    storage = Storage(lambda path, bytes_alone, read: None if bytes_alone or read < up else TIMEOUT)

    with pytest.raises(SparkRuntimeException, match="SocketTimeout"):
        storage.unreadable("a", "b") if up == 0 else [storage.unreadable("a") for _ in range(41)]


def test_what_a_broken_file_says_is_no_cause() -> None:
    """Its text is in Spark's error: it may hold the lines of another error, or a condition."""
    error = cannot_read("com.fasterxml.jackson.core.JsonParseException", "no JSON", FORGED)
    storage = Storage(lambda path, bytes_alone, read: None if bytes_alone else error)

    assert storage.unreadable("a") == {
        "a": "the file cannot be read as json: [FAILED_READ_FILE.NO_HINT] Encountered error while"
        " reading file x. Cause: no JSON"
    }


def test_a_broken_file_is_found_and_read_twice_to_be_sure() -> None:
    storage = Storage(
        lambda path, bytes_alone, read: BROKEN if path == "b" and not bytes_alone else None
    )

    assert storage.unreadable("a", "b") == {
        "b": "the file cannot be read as json: [FAILED_READ_FILE.NO_HINT] Encountered error while"
        " reading file x. Cause: no JSON"
    }
    assert storage.reads == 3 + 4


@pytest.mark.parametrize("trouble", [MISSING, BUSY, TIMEOUT])
def test_a_file_that_cannot_be_opened_now_is_not_gone(trouble: Exception) -> None:
    """A lack of rights or of descriptors has the same class in Java as a file that is gone."""
    storage = Storage(lambda path, bytes_alone, read: trouble if path == "b" else None)

    with pytest.raises(SparkRuntimeException, match="FAILED_READ_FILE"):
        storage.unreadable("a", "b")


@pytest.mark.parametrize(
    ("look", "reason"), [(Look.GONE, GONE), (Look.NO_FILE, NO_FILE), (Look.EMPTY, EMPTIED)]
)
def test_what_is_no_file_any_more_costs_no_read(look: Look, reason: str) -> None:
    storage = Storage(lambda path, bytes_alone, read: MISSING)
    storage.at = lambda path: Look.FILE if path == "a" else look

    names = [f"{number}" for number in range(281)]

    assert storage.unreadable("a", *names) == dict.fromkeys(names, reason)
    assert storage.reads == 0


def test_a_file_is_gone_only_if_its_container_is_there() -> None:
    storage = Storage(lambda path, bytes_alone, read: MISSING if path == "b" else None)
    storage.at = lambda path: Look.GONE if path == "b" else Look.FILE
    assert storage.unreadable("a", "b") == {"b": GONE}
    assert storage.looks == 2

    for lost_at in (1, 2):
        storage.looks, storage.is_there = 0, lambda look, lost_at=lost_at: look < lost_at
        with pytest.raises(FileNotFoundError, match="nothing is mounted at abfss://landing@shop"):
            storage.unreadable("a", "b")


def test_a_container_that_comes_back_has_its_files() -> None:
    storage = Storage(lambda path, bytes_alone, read: None)
    answers = [Look.GONE, Look.GONE]
    storage.at = lambda path: answers.pop() if answers else Look.FILE

    assert storage.unreadable("a", "b") == {}


@pytest.fixture
def only_spark() -> Container:
    """A container to which only Spark's readers have a credential, as with a catalog's."""
    things = {"a": "good", "b": "empty", "d": "folder", "d/x": "good", "e": "folder"}
    return Container(ROOT, {path: Thing(kind) for path, kind in things.items()}, only_spark=True)


def look_at(container: Container, *paths: str) -> dict[str, Look]:
    files = Files(RULES.roots, "json", "id INT", {}, container.is_there, container.looks)
    found = files.look(container, [File(HERE, path) for path in paths])  # type: ignore[arg-type]
    return {path: look for (_, path), look in found.items()}


def test_where_hadoop_cannot_look_sparks_reader_does(only_spark: Container) -> None:
    seen = {"a": Look.FILE, "b": Look.EMPTY, "d": Look.NO_FILE, "e": Look.EMPTY}
    assert look_at(only_spark, *seen) == seen
    assert look_at(only_spark, *seen, "gone") == seen | {"gone": Look.GONE}
    assert look_at(only_spark, "d", "d/x") == {"d": Look.NO_FILE, "d/x": Look.FILE}
    assert look_at(only_spark, "gone") == {"gone": Look.GONE}


def test_where_hadoop_cannot_look_a_file_is_gone_if_its_container_is_not(
    only_spark: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(self: Any, paths: list[str]) -> None:
        raise refused("PATH_NOT_FOUND", paths[0])

    monkeypatch.setattr("fake_storage.Reading.load", load)
    with pytest.raises(FileNotFoundError, match=r"no file of it counts as gone, such as a\."):
        look_at(only_spark, "a")


def test_on_a_disk_sparks_reader_does_not_say_that_a_file_is_gone(only_spark: Container) -> None:
    """Java says so of a file in a folder that nobody may enter."""
    (root,) = roots_of(HERE, {HERE: "file:/mnt/landing"}).values()
    only_spark.root = root
    files = Files({HERE: root}, "json", "id INT", {}, lambda *given: True, only_spark.looks)

    with pytest.raises(OSError, match="it is not known what is at gone"):
        files.look(only_spark, [File(HERE, "a"), File(HERE, "gone")])  # type: ignore[arg-type]


def test_what_nobody_can_say_passes_for_nothing(only_spark: Container) -> None:
    only_spark.hiccup = True
    for path in only_spark.things:
        with pytest.raises(OSError, match=r"(?s)it is not known what is at .* Start the query"):
            look_at(only_spark, path)


def test_a_look_by_spark_that_finds_something_else_is_none(
    only_spark: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the file system calls a file by another name: it is no empty folder."""
    rows = [{"path": f"{ROOT.spark}A", "length": 1}]
    monkeypatch.setattr("fake_storage.Reading.toLocalIterator", lambda self: rows)

    with pytest.raises(OSError, match=r"Spark finds abfss://\S+/A there"):
        look_at(only_spark, "a")


def test_a_name_that_nobody_can_ask_for_is_set_aside(
    only_spark: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no reason to start again: the next look would say the same."""
    load = only_spark.read.load.__func__  # type: ignore[attr-defined]
    name = sparks_error(
        ("java.lang.IllegalArgumentException", "x"), ("java.net.URISyntaxException", "x")
    )

    def no_colon(self: Any, paths: list[str]) -> Any:
        if any("12:30" in path for path in paths):
            raise name
        return load(self, paths)

    monkeypatch.setattr("fake_storage.Reading.load", no_colon)
    assert look_at(only_spark, "a", "12:30") == {"a": Look.FILE, "12:30": Look.NO_NAME}


def test_where_hadoop_cannot_look_files_that_are_gone_are_set_aside(only_spark: Container) -> None:
    files = Files(RULES.roots, "json", "id INT", {}, only_spark.is_there, only_spark.looks)
    gone = [f"{number}" for number in range(281)]

    steps = files.unreadable(only_spark, [File(HERE, path) for path in ["a", *gone]])  # type: ignore[arg-type]

    found = {each.file.path: each.reason for bad in steps for each in bad}
    assert found == dict.fromkeys(gone, GONE)
    assert only_spark.reads == 0


@pytest.mark.parametrize(
    ("says", "schema", "raised"),
    [
        (refused("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"), "id INTERVAL", AnalysisException),
        (refused("UNABLE_TO_INFER_SCHEMA"), None, ValueError),
        (refused("UNABLE_TO_INFER_SCHEMA"), "id INT", AnalysisException),
        (AnalysisException("Parameter 'path' is missing in options."), "id INT", None),
        (None, "id INT", None),
    ],
)
def test_an_empty_read_tells_what_is_wrong_with_the_format(
    says: Exception | None, schema: str | None, raised: type[Exception] | None
) -> None:
    """But not every format can read nothing: that it asks for a path says nothing of it."""
    storage = Storage(lambda *given: None)
    storage.of_nothing = says
    files = Files(RULES.roots, "json", schema, {})

    with pytest.raises(raised) if raised else nullcontext():
        files.check(storage)  # type: ignore[arg-type]


def test_an_error_of_the_driver_is_of_no_file() -> None:
    typo = refused("DATA_SOURCE_NOT_FOUND", "Failed to find the data source: jsn")
    storage = Storage(lambda path, bytes_alone, read: None if bytes_alone else typo)

    with pytest.raises(AnalysisException, match="jsn"):
        storage.unreadable("a", "b")
    assert storage.reads == 1, "at once"


def listed(path: str, at: float = 50.0) -> Listed:
    return Listed(ROOT, path, at, 3)


def told(rules: Rules, memory: Memory, window: Window, *found: Listed) -> list[str]:
    return [each.path for each in to_announce(found, rules, memory, window)]


def test_what_is_known_or_not_wanted_is_not_announced() -> None:
    memory = Memory(Bounds())
    memory.note(1.0, [File(HERE, "known.json", "0x1")], ())
    paths = ["known.json", "_SUCCESS", "new.json", "a%2fb", ".x/y"]

    assert told(RULES, memory, Window(), *map(listed, paths)) == ["new.json", "a%2fb"]


def test_a_name_that_cannot_be_read_is_announced_by_one_listing() -> None:
    found = [listed("a%2fb", 30.0), listed("c%2fd", 31.0)]

    assert told(RULES, Memory(Bounds()), Window(again=31.0), *found) == ["c%2fd"]


def test_an_empty_file_waits_for_its_event() -> None:
    assert told(RULES, Memory(Bounds()), Window(), listed("a")._replace(size=0)) == []


@pytest.mark.parametrize("overwrites", [False, True])
def test_of_a_file_that_was_set_aside_only_a_later_version_is_announced(overwrites: bool) -> None:
    memory, rules = Memory(Bounds(), allow_overwrites=overwrites), RULES
    memory.note(30.5, (), [File(HERE, "a", "0x1", 3.0), File(HERE, "b", "", 7.0)])
    found = [listed("a", 30.0), listed("b", 30.0)]
    rules = RULES._replace(allow_overwrites=overwrites)

    assert told(rules, memory, Window(), *found) == []
    assert told(rules, memory, Window(), *(each._replace(at=31.0) for each in found)) == ["a", "b"]


def test_a_listed_file_of_another_place_stops_the_listing() -> None:
    """Else its container would count as listed, and its files would never be read."""

    class Elsewhere(Reading):
        def option(self, name: str, value: str) -> Elsewhere:
            return self

        def load(self, path: str) -> Elsewhere:  # type: ignore[override]
            return self

        def selectExpr(self, *columns: str) -> Elsewhere:
            return self

        def repartition(self, pieces: int) -> Elsewhere:
            return self

        def toLocalIterator(self) -> list[dict[str, Any]]:
            return [{"path": "dbfs:/mnt/landing/a", "at": 5, "length": 1}]

    spark = Storage(lambda *given: None)
    reader = Elsewhere(spark)
    reader.read = reader  # type: ignore[attr-defined]

    with pytest.raises(ValueError, match="lists 'dbfs:/mnt/landing/a' in 'abfss://landing@shop"):
        [*in_containers(reader, RULES)]  # type: ignore[arg-type]


def test_a_later_listing_has_a_window() -> None:
    found = [listed("old", 9.0), listed("a", 10.0), listed("b", 19.9), listed("young", 20.0)]

    assert told(RULES, Memory(Bounds()), Window(10.0, 20.0), *found) == ["a", "b"]


def test_with_overwrites_what_changed_is_announced_again() -> None:
    memory = Memory(Bounds(), allow_overwrites=True)
    memory.note(1.0, [File(HERE, "a", "0x1"), File(HERE, "b", "0x1")], ())
    rules = RULES._replace(allow_overwrites=True)

    assert told(rules, memory, Window(again=30.0), listed("a", 29.0), listed("b", 30.0)) == ["b"]


def test_an_event_of_a_listing_is_one_of_event_grid() -> None:
    value = json.loads(event(listed("a b/ü#.json"), 1_700_000_000.5, "0" * 32))

    assert value["eventTime"] == "2023-11-14T22:13:20.500000+00:00"
    assert value["data"]["api"] == listed_by("0" * 32)
    assert value["subject"] == "/blobServices/default/containers/landing/blobs/a b/ü#.json"
    assert value["data"]["url"] == (
        "https://shopdata.blob.core.windows.net/landing/a%20b/%C3%BC%23.json"
    )
