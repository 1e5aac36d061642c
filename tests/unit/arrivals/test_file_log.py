"""The lists of batches: put once, read back with every value checked, and bounded."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from spark_azqueue.arrivals.decide import Aside
from spark_azqueue.arrivals.log import SNAPSHOT_AFTER, FileLog
from spark_azqueue.arrivals.memory import Bounds, File, Memory
from spark_azqueue.arrivals.record import Record
from spark_azqueue.errors import LogConflict, LogDamaged
from spark_azqueue.service.names import FILES, WRITE_AHEAD
from spark_azqueue.store.codec import sealed
from spark_azqueue.store.files import FileStore

HERE = "shopdata/landing"


def file(number: int) -> File:
    return File(HERE, f"{number}.json", "0x1", 5.0)


def opened(folder: Path) -> FileLog:
    log = FileLog(FileStore(str(folder / "log"), FILES), "shopdata", Memory(Bounds()))
    log.open()
    return log


def record(batch: int, *numbers: int) -> Record:
    return Record(batch, -1, 100.0 + batch, [file(number) for number in numbers], [])


def test_a_list_is_there_after_a_restart(tmp_path: Path) -> None:
    aside = [Aside(File(HERE, "é.json"), "why")]
    put = opened(tmp_path).put(record(3, 1, 2)._replace(aside=aside))

    log = opened(tmp_path)

    assert log.record(3) == put
    assert log.newest == 3
    assert log.memory.knows(file(1))
    assert log.memory.knows(File(HERE, "é.json"))
    assert log.record(4) is None


def test_the_first_list_of_a_batch_counts(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    first = one.put(record(0, 1))

    assert other.put(record(0, 2)) == first
    assert not other.memory.knows(file(2))


def test_two_queries_with_one_log_are_noticed(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.put(record(0, 1))
    one.put(record(1, 2))

    with pytest.raises(LogConflict, match="another query wrote the list of batch 1"):
        other.put(record(1, 3))
    with pytest.raises(LogConflict, match="lists up to batch 1, and the query is at batch 0"):
        one.check_number(0)
    one.check_number(1)


def test_what_could_not_be_read_is_there_after_a_restart(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.put(record(0, 1, 2, 3))
    bad = [Aside(file(2), "gone")]
    log.put_bad(0, bad)
    log.put_bad(0, [Aside(file(3), "broken")])
    assert not log.memory.knows(file(2)._replace(etag="0x2")), "also without a restart"

    log = opened(tmp_path)

    assert log.bad(0) == [*bad, Aside(file(3), "broken")]
    assert log.memory.knows(file(2))
    assert not log.memory.knows(file(2)._replace(etag="0x2")), "mended"
    assert log.memory.knows(file(1)._replace(etag="0x2"))


def test_the_folder_is_bounded_and_nothing_is_forgotten(tmp_path: Path) -> None:
    log, batches = opened(tmp_path), 3 * SNAPSHOT_AFTER + 7
    chance = random.Random(5)
    for batch in range(batches):
        log.put(record(batch, batch))
        if batch % 50 == 3:
            log.put_bad(batch, [Aside(file(batch), "broken")])
        if chance.random() < 0.05:
            log = opened(tmp_path)

    found = {
        folder.name: len([*folder.iterdir()])
        for folder in (tmp_path / "log").iterdir()
        if folder.is_dir()
    }
    log = opened(tmp_path)

    assert found["memory"] <= 2
    assert found["batch"] <= 2 * SNAPSHOT_AFTER
    assert found["bad"] <= 5
    assert all(log.memory.knows(file(batch)) for batch in range(batches))
    assert not log.memory.knows(file(3)._replace(etag="0x2")._replace(path="none"))
    assert not log.memory.knows(file(3)._replace(etag="0x2"))
    assert log.newest == batches - 1


def test_a_list_that_is_missing_stops_the_query(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for batch in range(3):
        log.put(record(batch, batch))
    (tmp_path / "log" / "batch" / f"{1:012d}").unlink()

    with pytest.raises(LogDamaged, match=r"batch/000000000002.*a list before it is missing"):
        opened(tmp_path)


def damage(folder: Path, **changes: Any) -> None:
    path = folder / "log" / "batch" / f"{0:012d}"
    value = json.loads(path.read_bytes().rpartition(b"\n")[0])
    path.unlink()
    path.write_bytes(sealed({**value, **changes}))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"batch": 1},
        {"previous": 0},
        {"previous": "x"},
        {"at": float("inf")},
        {"at": -1},
        {"files": "x"},
        {"files": [["shopdata/landing", "../x", "", 1.0]]},
        {"files": [["shopdata/landing", "a%2fb", "", 1.0]]},
        {"files": [["../x", "a", "", 1.0]]},
        {"files": [["shopdata/landing", "", "", 1.0]]},
        {"files": [["shopdata/landing", "a", "é", 1.0]]},
        {"files": [["shopdata/landing", "a", "", True]]},
        {"files": [["shopdata/landing", "a", ""]]},
        {"files": [5]},
        {"aside": [[]]},
        {"aside": [["shopdata/landing", "a", "", 1.0]]},
        {"aside": None},
    ],
)
def test_what_is_not_as_it_was_written_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    opened(tmp_path).put(record(0, 1))
    damage(tmp_path, **changes)

    with pytest.raises(LogDamaged, match="is not as it was written"):
        opened(tmp_path)


def test_other_bytes_are_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for batch in range(SNAPSHOT_AFTER + 1):
        log.put(record(batch, batch))
    (snapshot,) = (tmp_path / "log" / "memory").iterdir()
    data = snapshot.read_bytes()
    snapshot.write_bytes(data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])

    with pytest.raises(LogDamaged, match=r"memory/000000000099.*its digest does not fit"):
        opened(tmp_path)


def test_names_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    opened(tmp_path).put(record(0, 1))
    for folder in ("batch", "bad", "memory", "listing"):
        (tmp_path / "log" / folder).mkdir(exist_ok=True)
        (tmp_path / "log" / folder / "note").write_text("mine")

    assert opened(tmp_path).newest == 0
    assert opened(tmp_path).listed() is None


def test_a_log_of_another_kind_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    other = FileLog(FileStore(str(tmp_path / "log"), WRITE_AHEAD), "shopdata", Memory(Bounds()))

    with pytest.raises(LogConflict, match="is the folder of a file log"):
        other.open()


def test_when_it_began_and_what_was_listed(tmp_path: Path) -> None:
    log = opened(tmp_path)

    assert log.listed() is None
    assert log.begun(5.0, existing=False) == (5.0, False)
    assert log.begun(9.0, existing=True) == (5.0, False), "the first counts"
    log.put_listed(7.0)
    log.put_listed(8.0)

    assert opened(tmp_path).listed() == 8
    assert len([*(tmp_path / "log" / "listing").iterdir()]) == 1
