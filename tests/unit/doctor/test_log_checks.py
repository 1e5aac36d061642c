"""What the doctor says of a write-ahead log, and that it leaves the log as it was."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from log_stores import MemoryLogStore
from misbehaving import Server, says
from refs import ref
from segments import a_message

from spark_azqueue.commands.doctor import log_checks
from spark_azqueue.commands.doctor.finding import Finding
from spark_azqueue.commands.doctor.log_checks import examine_log
from spark_azqueue.commands.doctor.queue_checks import examine
from spark_azqueue.journal import file_system
from spark_azqueue.journal.codec import sealed
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.journal.store import LogStore
from spark_azqueue.options.choices import Side
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.blobs.protection import Protection
from spark_azqueue.service.messages import MessageKey
from spark_azqueue.service.names import Stored
from spark_azqueue.source.log import inspect
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.outcomes import BatchOutcome, BatchOutcomes
from spark_azqueue.source.log.progress import LogProgress

ACCOUNT = "acc"
ORDERS = ref("orders", ACCOUNT)
URL = "https://acc.queue.core.windows.net"
SIGNATURE = "aBcD1234"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "orders"


def written(
    folder: Path, batches: int = 3, progress: LogProgress | None = None, account: str = ACCOUNT
) -> WriteAheadLog:
    """A log with batches of two messages, the first of which is committed and deleted."""
    log = WriteAheadLog(FileStore(str(folder)), account, 10)
    log.open()
    log.claim(0)
    queue = ref("orders", account)
    for number in range(batches):
        messages = [a_message(2 * number + n, queue=queue) for n in range(2)]
        contents = Contents(messages, (2,), None, (queue,), {})
        log.put(contents, progress or LogProgress(committed=1, done=1))
    return log


def looked(
    place: Path | str, store: LogStore | None = None, queue: str = "orders", **options: str
) -> list[Finding]:
    where = place if isinstance(place, str) else f"file:{place}"
    given = {"accountUrl": URL, "sasToken": f"sp=raup&sig={SIGNATURE}", "queue": queue}
    config = source_config({**given, "writeAheadLog": where, **options}, {})
    assert config.write_ahead_log
    found = list(examine_log(config, config.write_ahead_log, store))
    assert SIGNATURE not in repr(found)
    assert all(finding.advice for finding in found if finding.good is False)
    return found


def bad(found: Sequence[Finding]) -> str:
    """The only bad finding: its text and its advice."""
    (one,) = [finding for finding in found if finding.good is False]
    return f"{one.text}. {one.advice}"


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


# ── a good log, and a new one ─────────────────────────────────────────────────────────────────────


def test_a_good_log_is_good_and_left_as_it_was(folder):
    written(folder)
    before = everything(folder)

    found = looked(folder)

    assert {finding.good for finding in found} == {True}
    assert everything(folder) == before
    said = "\n".join(finding.text for finding in found)
    assert f"write-ahead log file:{folder}: objects can be created once, read and deleted" in said
    assert "belongs to account 'acc'" in said
    assert "was written from the queues ['orders']" in said
    assert "the newest batch is as it was written: 2 messages" in said
    assert re.search(r"holds batches 1 to 3 \([1-3]\.\d KiB\), the oldest written 20\d\d-", said)
    assert (
        "committed up to batch 1, deleted from the queue up to 1, 2 not known to be committed;"
        " 4 ids known, 0 pending deletes"
    ) in said


def test_a_query_that_runs_goes_on(folder):
    log = written(folder)
    looked(folder)

    assert log.put(Contents([a_message(queue=ORDERS)], (1,), None, (ORDERS,), {}), LogProgress())


def test_what_is_owed_is_counted(folder):
    pending = tuple(PendingDelete(MessageKey(ORDERS, f"id-{n}"), n, 0) for n in range(5))
    written(folder, 2, LogProgress(committed=2, done=2, pending=pending))

    assert "0 not known to be committed; 5 ids known, 5 pending deletes" in looked(folder)[-1].text


def test_many_batches_that_are_not_committed_are_noted(folder):
    written(folder, 5)

    last = looked(folder)[-1]

    assert last.good is None
    assert "4 not known to be committed" in last.text
    assert "does a batch fail again and again?" in last.advice


def test_of_a_long_log_not_every_header_is_read(folder, monkeypatch):
    monkeypatch.setattr(inspect, "HEADERS_AT_MOST", 2)
    written(folder, 5)

    assert "at least 4 ids known" in looked(folder)[-1].text


def test_batches_that_were_given_up_are_noted(folder):
    log = written(folder)
    outcomes = BatchOutcomes(log, log.writer)
    for number, outcome in (
        (1, BatchOutcome.COMMITTED),
        (2, BatchOutcome.SPLIT),
        (3, BatchOutcome.POISON),
    ):
        outcomes.decide(number, outcome)

    last = looked(folder)[-1]

    assert last.good is None
    assert "2 batches were abandoned, 2 first" in last.text
    assert "poison queue" in last.advice


@pytest.mark.parametrize("made", [0, 1, 2])
def test_a_new_log_is_noted_and_nothing_is_made(tmp_path, folder, made):
    for path in (folder.parent, folder)[:made]:
        path.mkdir()

    found = looked(folder)

    assert found[-1].good is None
    assert "is new: the first start" in found[-1].text
    assert "restore it" in found[-1].advice
    assert False not in {finding.good for finding in found}
    assert sorted(tmp_path.rglob("*")) == [folder.parent, folder][:made]


def test_a_log_without_batches_is_noted(folder):
    written(folder, 0)

    assert looked(folder)[-1] == Finding(None, f"write-ahead log file:{folder} holds no batch yet")


def test_the_doctor_looks_at_the_log_of_a_source_and_not_of_a_sink(fake, folder):
    fake.create_queue("orders")
    options = {"secret.connectionString": fake.connection_string, "queue": "orders"}

    found = list(examine({**options, "writeAheadLog": f"file:{folder}"}, Side.SOURCE))
    assert "is new" in found[-1].text
    assert not any(
        "write-ahead" in finding.text
        for finding in (*examine(options, Side.SOURCE), *examine(options, Side.SINK))
    )


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_whose_disk_is_not_mounted(tmp_path):
    said = bad(looked(tmp_path / "not" / "mounted" / "log"))

    assert f"there is no folder {tmp_path / 'not'}" in said
    assert "Is the disk mounted?" in said


def test_a_file_instead_of_a_folder(folder):
    folder.parent.mkdir()
    folder.write_text("x")

    assert f"there is no folder {folder}" in bad(looked(folder))


def test_a_folder_that_may_not_be_read(folder, monkeypatch):
    written(folder)

    def denied(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(file_system.os, "scandir", denied)
    said = bad(looked(folder))
    assert "EACCES" in said
    assert "Let the user of the driver's process read and write there" in said


def test_a_folder_above_that_may_not_be_written(folder, monkeypatch):
    folder.parent.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    assert f"cannot be made: {folder.parent} is not writable" in bad(looked(folder))


def test_a_disk_without_room_for_a_batch(folder, monkeypatch):
    written(folder)
    usage = shutil._ntuple_diskusage(2**40, 2**40 - 2**20, 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    said = bad(looked(folder, maxBytesPerTrigger="8m"))
    assert "1.0 MiB are free on its disk. Make room: a batch may take 8.0 MiB there" in said


def test_a_disk_that_takes_no_file(folder, monkeypatch):
    written(folder)
    before = everything(folder)
    real = os.write

    def full(file, data):
        if len(data) > 1_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data)

    monkeypatch.setattr(file_system.os, "write", full)
    said = bad(looked(folder))
    assert "ENOSPC" in said
    assert "Make room there" in said
    assert everything(folder) == before


def test_a_store_that_overwrites(folder):
    """No store of ours does."""
    written(folder)

    class Overwriting(FileStore):
        def put_new(self, name, data):
            (folder / name).write_bytes(data)
            return True

    assert "an object that exists is overwritten" in bad(looked(folder, Overwriting(str(folder))))


def test_the_folder_of_another_account(folder):
    written(folder, account="other")

    assert "belongs to the account 'other', but the options name 'acc'" in bad(looked(folder))


@pytest.mark.parametrize("data", [b"", b"{}", sealed({"version": 2, "log": "x", "account": "acc"})])
def test_an_identity_of_another_version_or_a_damaged_one(folder, data):
    written(folder)
    (folder / "log.json").write_bytes(data)

    assert "restore it, upgrade, or name another folder" in bad(looked(folder))


def test_a_folder_without_its_identity(folder):
    written(folder)
    (folder / "log.json").unlink()

    assert "its log.json is missing" in bad(looked(folder))


def test_the_folder_of_a_query_of_other_queues(folder):
    written(folder)

    said = bad(looked(folder, queue="returns"))
    assert "was written from the queues ['orders'], and option 'queue' names none of them" in said
    assert "a start with this one is refused" in said


@pytest.mark.parametrize("at", [3, 40, -40, -1])
def test_a_damaged_newest_batch(folder, at):
    written(folder)
    newest = folder / "seg" / "000000000003"
    data = bytearray(newest.read_bytes())
    data[at] ^= 1
    newest.write_bytes(data)

    assert "'seg/000000000003' in the write-ahead log" in bad(looked(folder))


def test_a_batch_that_is_missing(folder):
    written(folder)
    (folder / "seg" / "000000000002").unlink()

    assert "segment 2 is missing" in bad(looked(folder))
    said = bad(looked(folder, failOnDataLoss="false"))
    assert re.search(r"holds batches 1 to 3 \([12]\.\d KiB\), and 1 of them are missing", said)


# ── blobs ─────────────────────────────────────────────────────────────────────────────────────────


class Tiered(MemoryLogStore):
    def entries(self, folder: str) -> list[Stored]:
        tiers = ["Archive" if self.is_archived else "Cool", "", ""]
        return [
            entry._replace(tier=tier)
            for entry, tier in zip(super().entries(folder), tiers, strict=False)
        ]

    is_archived = False


def in_blobs(store: MemoryLogStore) -> MemoryLogStore:
    log = WriteAheadLog(store, ACCOUNT, 10)
    log.open()
    log.claim(0)
    for _ in range(2):
        log.put(Contents([a_message(queue=ORDERS)], (1,), None, (ORDERS,), {}), LogProgress())
    return store


def test_a_lifecycle_rule_cannot_be_seen_but_its_work_can():
    store = in_blobs(Tiered())
    before = dict(store.objects)

    found = looked("blob:logs/orders", store)

    (hidden, cool) = [finding for finding in found if finding.good is None]
    assert "does not show whether a lifecycle rule covers it" in hidden.text
    assert "'logs/orders/'" in hidden.advice
    assert "something has set access tiers in it (Cool)" in cool.text
    store.is_archived = True
    assert "rehydrate what is archived" in bad(looked("blob:logs/orders", store))
    assert store.objects == before


@pytest.fixture
def what_keeps_blobs(monkeypatch):
    """What is said because of a protection, and not of any folder in a container."""

    class Folder(MemoryLogStore):
        def __init__(self, found: Protection) -> None:
            super().__init__()
            self.found = found

        def protection(self, name: str) -> Protection:
            assert name in self.objects
            return self.found

    monkeypatch.setattr(log_checks, "BlobFolder", Folder)

    def look(found: Protection) -> list[Finding]:
        always = looked("blob:logs/orders", in_blobs(MemoryLogStore()))
        said = looked("blob:logs/orders", in_blobs(Folder(found)))
        return [each for each in said if each not in always]

    return look


def test_what_keeps_blobs_is_told(what_keeps_blobs):
    found = what_keeps_blobs(Protection(True, 7, True))
    texts = [(finding.good, finding.text) for finding in found]

    log = "write-ahead log memory:log"
    assert texts == [
        (False, f"{log}: an immutability policy or a legal hold is on"),
        (None, f"{log}: the account keeps deleted blobs (soft delete for 7 days, versions)"),
    ]


def test_what_a_credential_may_not_read_is_told(what_keeps_blobs):
    (found,) = what_keeps_blobs(Protection(None, None, None))

    assert found.good is None
    assert "may not read whether soft delete is on" in found.text


def test_nothing_is_told_if_nothing_keeps_blobs(what_keeps_blobs):
    assert what_keeps_blobs(Protection(False, 0, False)) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (says(404, x_ms_error_code="ContainerNotFound"), "Create the container 'logs'"),
        (says(403, x_ms_error_code="AuthorizationPermissionMismatch"), "this needs the SAS letter"),
        (says(403, x_ms_error_code="AuthenticationFailed"), "does not accept this credential"),
    ],
)
def test_a_container_that_cannot_be_used(answer, words):
    with Server(answer) as server:
        found = looked("blob:logs/orders", blobAccountUrl=f"{server.url}/acc")

    assert "write-ahead log blob:logs/orders cannot be used" in bad(found)
    assert words in bad(found)
