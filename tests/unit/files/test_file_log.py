"""The lists of batches: put once, read back with every value checked, and bounded."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_azqueue.errors import LogConflict, LogDamaged
from spark_azqueue.files.decide import Quarantined, choose
from spark_azqueue.files.log import FileLog
from spark_azqueue.files.memory import Bounds, File, Memory
from spark_azqueue.files.record import Begun, FileList, SnapshotHead
from spark_azqueue.journal.codec import Damaged, digest_of, sealed
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.journal.frame import framed
from spark_azqueue.service.names import FILES, WRITE_AHEAD

HERE = "shopdata/landing"
SNAPSHOT_AFTER = 20


@pytest.fixture(autouse=True)
def early_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_azqueue.files.log.SNAPSHOT_AFTER", SNAPSHOT_AFTER)


def file(number: int) -> File:
    return File(HERE, f"{number}.json", "0x1", 5.0)


def opened(folder: Path) -> FileLog:
    log = FileLog(FileStore(str(folder / "log"), FILES), "shopdata", Memory(Bounds()))
    log.open()
    return log


def record(batch: int, *numbers: int) -> FileList:
    return FileList(batch, -1, 100.0 + batch, [file(number) for number in numbers], [])


def test_a_list_is_there_after_a_restart(tmp_path: Path) -> None:
    aside = [Quarantined(File(HERE, "é.json"), "why")]
    put = opened(tmp_path).put(record(3, 1, 2)._replace(aside=aside))

    log = opened(tmp_path)

    assert log.record(3) == put
    assert log.newest == 3
    assert log.memory.knows(file(1))
    assert log.memory.knows(File(HERE, "é.json"))
    assert log.record(4) is None


def test_two_queries_with_one_log_are_noticed(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.put(record(0, 1))
    one.put(record(1, 2))

    with pytest.raises(LogConflict, match="another query wrote the list of batch 1"):
        other.put(record(1, 3))
    with pytest.raises(LogConflict, match="another query wrote the list of batch 1"):
        other.put(record(2, 3))
    assert opened(tmp_path).newest == 1, "nothing was written"
    with pytest.raises(LogConflict, match="lists up to batch 1, and the query is at batch 0"):
        one.check_number(0)
    one.check_number(1)


class Racing(FileStore):
    """A store in which something happens just before a list is put."""

    before: Callable[[], object] = staticmethod(lambda: None)

    def put_new(self, name: str, data: bytes) -> bool:
        if name.startswith("batch/"):
            self.before()
        return super().put_new(name, data)


def racing(folder: Path, before: Callable[[FileStore], object]) -> FileLog:
    store = Racing(str(folder / "log"), FILES)
    log = FileLog(store, "shopdata", Memory(Bounds()))
    log.open()
    store.before = lambda: before(FileStore(str(folder / "log"), FILES))
    return log


@pytest.mark.parametrize("batch", [3, 4, 5])
def test_two_lists_at_the_same_moment_are_noticed(tmp_path: Path, batch: int) -> None:
    """Neither of two queries takes the list of the other for its own: its own events are others."""
    opened(tmp_path).put(record(2, 1))
    theirs = record(batch, 2)._replace(previous=2)
    log = racing(tmp_path, lambda store: store.put_new(f"batch/{batch:012d}", theirs.to_bytes()))

    with pytest.raises(LogConflict, match=f"another query wrote the list of batch {batch} "):
        log.put(record(4, 3))


def test_a_list_that_an_attempt_without_an_answer_put_is_its_own(tmp_path: Path) -> None:
    mine = record(4, 3)
    log = racing(tmp_path, lambda store: store.put_new(f"batch/{4:012d}", mine.to_bytes()))

    assert log.put(mine) == mine


def test_a_log_has_one_query(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.claim("4e5f-1")
    log.claim("4e5f-1")
    opened(tmp_path).claim("4e5f-1")

    with pytest.raises(LogConflict, match="4e5f-1, and this one has the id 4e5f-2"):
        opened(tmp_path).claim("4e5f-2")


def test_what_could_not_be_read_is_there_after_a_restart(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.put(record(0, 1, 2, 3))
    bad = [Quarantined(file(2), "gone")]
    log.put_bad(0, bad)
    log.put_bad(0, [Quarantined(file(3), "broken")])
    assert not log.memory.knows(file(2)._replace(etag="0x2")), "also without a restart"

    log = opened(tmp_path)

    assert log.bad(0) == [*bad, Quarantined(file(3), "broken")]
    assert log.memory.knows(file(2))
    assert not log.memory.knows(file(2)._replace(etag="0x2")), "mended"
    assert log.memory.knows(file(1)._replace(etag="0x2"))


def test_a_run_that_was_left_behind_sets_nothing_aside(tmp_path: Path) -> None:
    """Its files may be gone since another run has read them: it must not write its batch again."""
    stopped = opened(tmp_path)
    stopped.put(record(0, 1))
    opened(tmp_path).put(record(1, 2))

    with pytest.raises(LogConflict, match="another query wrote the list of batch 1"):
        stopped.put_bad(0, [Quarantined(file(1), "gone")])

    assert opened(tmp_path).bad(0) == []


def test_the_folder_is_bounded_and_nothing_is_forgotten(tmp_path: Path) -> None:
    log, batches = opened(tmp_path), 3 * SNAPSHOT_AFTER + 7
    chance = random.Random(5)
    for batch in range(batches):
        log.put(record(batch, batch))
        if batch % 50 == 3:
            log.put_bad(batch, [Quarantined(file(batch), "broken")])
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
        {"at": float("nan")},
        {"at": 10**400},
        {"at": -1},
        {"files": "x"},
        {"files": [["shopdata/landing", "../x", "", 1.0]]},
        {"files": [["shopdata/landing", "a%2fb", "", 1.0]]},
        {"files": [["../x", "a", "", 1.0]]},
        {"files": [["shopdata/landing", "", "", 1.0]]},
        {"files": [["shopdata/landing", "a", "é", 1.0]]},
        {"files": [["shopdata/landing", "a", "", True]]},
        {"files": [["shopdata/landing/x", "a", "", 1.0]]},
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


@pytest.mark.parametrize(
    "change",
    [
        {"files": [File(HERE, "a/../b")]},
        {"left_out": (File(HERE, "z" * 4_097),)},
        {"aside": [Quarantined(File(HERE, "z" * 4_097), "why")]},
        {"aside": [Quarantined(File("no place", "z"), "why")]},
        {"files": [File(HERE, "a", "é")]},
        {"files": [File(HERE, "a", "", -1.0)]},
        {"oldest": -1.0},
    ],
)
def test_a_list_that_could_not_be_read_is_not_written(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """Else it would end the query for good."""
    log = opened(tmp_path)

    with pytest.raises(ValueError, match="could not be read again: "):
        log.put(record(0, 1)._replace(**change))

    assert opened(tmp_path).newest == -1


def test_no_other_object_is_written_that_could_not_be_read(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.put(record(0, 1))
    for write in (
        lambda: log.put_bad(0, [Quarantined(File(HERE, "z" * 4_097), "why")]),
        lambda: log.claim("a query"),
        lambda: log.begun(Begun(-1.0), resumed=False),
    ):
        with pytest.raises(ValueError, match="could not be read again: "):
            write()

    assert opened(tmp_path).bad(0) == []


def padded(value: dict[str, Any], size: int) -> bytes:
    return sealed({"version": 1, **value, "x": " " * size})


@pytest.mark.parametrize(
    ("name", "value", "size"),
    [
        ("begun/begun", {"at": 5.0}, 4_096),
        ("begun/query", {"query": "4e5f"}, 4_096),
        ("begun/sender", {"sender": "5" * 32}, 4_096),
        (f"bad/{0:012d}-000", {"aside": []}, 32 * 2**20),
    ],
)
def test_an_object_has_a_bound_of_its_own(
    tmp_path: Path, name: str, value: dict[str, Any], size: int
) -> None:
    store = FileStore(str(tmp_path / "log"), FILES)
    opened(tmp_path)
    store.put_new(name, padded(value, size))

    def use() -> None:
        log = opened(tmp_path)
        log.begun(Begun(5.0), resumed=False)
        log.claim("4e5f")
        assert log.sender

    with pytest.raises(LogDamaged, match=f"{name}.*it is too large"):
        use()


@pytest.mark.parametrize("value", ["[]", "{}", "0", '""', '["\\\\",["\\""]]'])
@pytest.mark.parametrize("name", ["files", "aside", "left_out"])
def test_an_object_of_many_values_takes_no_memory(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before they are made: a value of two bytes takes seventy of memory."""
    head = f'{{"version":1,"batch":1,"previous":-1,"at":1,"files":[],"aside":[],"{name}":['
    data = f"{head}{f'{value},' * (6_100_000 // (1 + value.count(',')))}0]}}".encode()
    monkeypatch.setattr("spark_azqueue.journal.codec.loaded", None)  # nor parsed

    with pytest.raises(Damaged, match="it has more values than a list"):
        FileList.read(data + b"\n" + digest_of(data).encode(), 1)


def test_a_large_list_is_read_whatever_its_names_are() -> None:
    """Commas, brackets and quotation marks in them are no values."""
    aside = [
        Quarantined(File(HERE, (f"{number}" + '\\",[,{,' * 200)[:1_024]), 'why, "[\\')
        for number in range(13_000)
    ]
    data = (full := record(1)._replace(aside=aside)).to_bytes()

    assert len(data) > 12_100_000
    assert data.count(b",") + data.count(b"[") + data.count(b"{") > 6_000_100
    assert FileList.read(data, 1) == full


def test_what_could_not_be_read_may_be_many_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_azqueue.files.record.BAD_AT_MOST", 500)
    log, bad = opened(tmp_path), [Quarantined(file(number), "gone") for number in range(50)]
    log.put(record(0, *range(50)))
    log.put_bad(0, bad)

    names = [path.name for path in (tmp_path / "log" / "bad").iterdir()]
    assert len(names) > 5
    for name in names:
        (tmp_path / "log" / "bad" / name).rename(
            tmp_path / "log" / "bad" / f"{name[:13]}1{name[13:]}"
        )
    assert sorted(opened(tmp_path).bad(0)) == sorted(bad), "also those with four digits"


def test_the_head_of_a_snapshot_is_small() -> None:
    for data in (SnapshotHead(0.0, -1, 0.0, 0.0).to_bytes() + b" " * 4_096, b"[" * 4_000):
        with pytest.raises(Damaged, match="its head is"):
            SnapshotHead.read(data)


def test_other_bytes_are_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for batch in range(SNAPSHOT_AFTER + 1):
        log.put(record(batch, batch))
    (snapshot,) = (tmp_path / "log" / "memory").iterdir()
    data = snapshot.read_bytes()
    snapshot.write_bytes(data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])

    with pytest.raises(LogDamaged, match=r"memory/000000000019.*its digest does not match"):
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
    began = Begun(5.0, existing=False)

    assert log.listed() is None
    assert log.begun(began, resumed=False) == began
    assert log.begun(Begun(9.0, existing=True), resumed=True) == began, "the first counts"
    log.put_listed(7.0)
    log.put_listed(8.0)

    assert opened(tmp_path).listed() == 8
    assert len([*(tmp_path / "log" / "listing").iterdir()]) == 1


def test_a_new_log_with_an_old_checkpoint_is_refused(tmp_path: Path) -> None:
    """The log was lost, or another one is named: everything would be read a second time."""
    for _ in range(2):
        with pytest.raises(LogConflict, match="is new, but the checkpoint has batches already"):
            opened(tmp_path).begun(Begun(5.0), resumed=True)


def test_another_way_to_remember_files_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).begun(Begun(5.0, allow_overwrites=True), resumed=False)

    with pytest.raises(LogConflict, match="began with allow_overwrites=True"):
        opened(tmp_path).begun(Begun(6.0), resumed=True)


def test_a_backlog_of_days_is_read_to_its_end(tmp_path: Path) -> None:
    """A first listing of more files than are remembered, with restarts while it is read."""

    def start() -> FileLog:
        store = FileStore(str(tmp_path / "log"), FILES)
        log = FileLog(store, "shopdata", Memory(Bounds(most=60)))
        log.open()
        return log

    log, day = start(), 86_400.0
    for batch in range(90):
        if batch % 14 == 12:
            log = start()
        listed = [File(HERE, f"{batch}-{each}", "", 1e9) for each in range(3)]
        chosen = choose(listed, log.memory)
        assert chosen.aside == []
        log.put(FileList(batch, -1, 1e9 + batch * day / 20, chosen.files, []))
    assert len(log.memory) == 90 * 3

    for batch in range(90, 150):
        if batch == 103:  # the first lists behind a snapshot
            log = start()
            assert log.memory.horizon == 0
        at = 1e9 + batch * day / 2
        log.put(FileList(batch, -1, at, [File(HERE, f"{batch}", "", at)], []))
    assert len(log.memory) < 120, "behind it the bound holds again"
    assert start().memory.to_bytes() == log.memory.to_bytes()


def test_time_does_not_go_back_behind_a_snapshot(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for batch in range(SNAPSHOT_AFTER):
        log.put(record(batch, batch))
    log.put(record(SNAPSHOT_AFTER)._replace(at=5_000.0, aside=[Quarantined(file(1), "why")]))
    for folder in ("batch", "bad", "newest"):
        for path in (tmp_path / "log" / folder).glob("*"):
            path.unlink()

    put = opened(tmp_path).put(record(900, 900)._replace(at=7.0))

    assert put.at == 100.0 + SNAPSHOT_AFTER - 1


def test_a_memory_too_large_for_a_snapshot_keeps_its_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spark_azqueue.files.log.MOST_REMEMBERED", 10)
    log = opened(tmp_path)
    for batch in range(2 * SNAPSHOT_AFTER):
        log.put(record(batch, batch))

    assert "too many for a snapshot" in caplog.text
    assert len(opened(tmp_path).memory) == 2 * SNAPSHOT_AFTER


def test_the_newest_list_is_missed(tmp_path: Path) -> None:
    """Without it the files of its batch would be read twice."""
    log = opened(tmp_path)
    for batch in (1, 3):
        log.put(record(batch, batch))
    assert [path.name for path in (tmp_path / "log" / "newest").iterdir()] == [f"{3:012d}"]
    assert opened(tmp_path).newest == 3
    (tmp_path / "log" / "batch" / f"{3:012d}").unlink()

    with pytest.raises(LogDamaged, match=r"batch/000000000003' .*it is missing"):
        opened(tmp_path)


def test_the_secret_of_a_log_stays(tmp_path: Path) -> None:
    sender = opened(tmp_path).sender

    assert opened(tmp_path).sender == sender
    assert len(sender) == 32


def test_what_was_left_out_is_in_the_list_and_not_in_the_memory(tmp_path: Path) -> None:
    put = opened(tmp_path).put(record(1, 1)._replace(left_out=(file(2),)))
    log = opened(tmp_path)

    assert log.record(1) == put
    assert not log.memory.knows(file(2))


def test_a_small_snapshot_does_not_take_much_memory(tmp_path: Path) -> None:
    """Keys are digests, so an object that grows a hundredfold is none of ours."""
    store = FileStore(str(tmp_path / "log"), FILES)
    opened(tmp_path)
    head = SnapshotHead(0.0, -1, 0.0, 0.0).to_bytes()
    store.put_new(f"memory/{7:012d}", framed(b"azqueue files 1\n", head, bytes(24 * 100_000)))

    with pytest.raises(LogDamaged, match="its sizes do not fit"):
        opened(tmp_path)
