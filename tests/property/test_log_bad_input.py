"""A write-ahead log that cannot be used: a prompt error, nothing lost, and the next start goes on.

Before a start may use its log, it leases nothing: then other consumers have all messages at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from log_stores import MemoryLogStore
from misbehaving import Server, says
from world.fates import Fate
from world.logged import LoggedSpark
from world.service import Service
from world.spark import VISIBILITY_S

from spark_azqueue.errors import (
    AccessDenied,
    AzQueueError,
    LogConflict,
    LogDamaged,
    LogUnavailable,
    LostSegment,
    ServiceError,
)
from spark_azqueue.journal import file_system
from spark_azqueue.journal.codec import sealed
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.service.account import Account
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.service.names import WRITE_AHEAD

from .test_log_scenarios import a_query, bodies, drain, each_once, send

pytestmark = [
    pytest.mark.usefixtures("simulated_time"),
    pytest.mark.parametrize("settings", [{"delete_after": each} for each in DeleteAfter], ids=str),
]

Settings = dict[str, Any]
SECONDS = 10.0


def refused(
    service: Service, spark: LoggedSpark, kind: type[AzQueueError], words: str, *, free: int
) -> None:
    """A start fails within seconds, and leaves this many messages to others at once."""
    before = service.clock.now()
    with pytest.raises(kind, match=words):
        spark.trigger()
    spark.kill()
    assert service.clock.now() - before < SECONDS
    assert sum(view.visible for view in service.views()) == free


def goes_on(service: Service, spark: LoggedSpark, count: int) -> None:
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    assert bodies(spark) == each_once(count)
    assert service.views() == []


def on_disk(folder: Path, settings: Settings) -> tuple[Service, LoggedSpark]:
    service, spark = a_query(8, settings)
    spark.store = FileStore(str(folder))  # type: ignore[assignment]
    return service, spark


def failing(number: int) -> Callable[..., Any]:
    def fail(*given: object, **named: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


# ── the folder ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("call", ["open", "scandir"])
def test_a_folder_that_may_not_be_read(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    service, spark = on_disk(tmp_path / "log", settings)

    with monkeypatch.context() as patched:
        patched.setattr(file_system.os, call, failing(errno.EACCES))
        refused(service, spark, LogUnavailable, "EACCES.*Let the user of the driver", free=8)

    goes_on(service, spark, 8)


def test_a_disk_that_is_not_mounted(settings: Settings, tmp_path: Path) -> None:
    service, spark = on_disk(tmp_path / "disk" / "logs" / "orders", settings)

    refused(service, spark, LogUnavailable, "ENOENT.*Is the disk mounted", free=8)

    (tmp_path / "disk").mkdir()
    goes_on(service, spark, 8)


def test_a_disk_that_is_full_in_the_middle_of_a_put(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, spark = on_disk(tmp_path / "log", settings)
    spark.start()
    real, written = os.write, []

    def write(file: int, data: memoryview) -> int:
        if len(data) < 500:  # the identity and the claim
            return real(file, data)
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(real(file, data[:100]))
        return 100

    with monkeypatch.context() as patched:
        patched.setattr(file_system.os, "write", write)
        refused(service, spark, LogUnavailable, "ENOSPC.*Make room there", free=8)

    assert written
    assert list((tmp_path / "log" / "seg").iterdir()) == [], "nothing half written stays"
    goes_on(service, spark, 8)


@pytest.mark.parametrize("name", ["log.json", "claims"])
def test_a_credential_that_may_not_write(settings: Settings, name: str) -> None:
    service, spark = a_query(8, settings)
    spark.store.next_puts(*([Fate.REFUSED] if name == "log.json" else [None, Fate.REFUSED]))

    refused(service, spark, ServiceError, f"could not put {name}.*HTTP 403", free=8)

    goes_on(service, spark, 8)


@pytest.mark.parametrize(
    ("code", "status", "kind", "words"),
    [
        ("ContainerNotFound", 404, ServiceError, "Create the container 'logs', or correct"),
        ("AuthorizationPermissionMismatch", 403, AccessDenied, "the SAS letters 'r', 'c', 'd'"),
    ],
)
def test_a_container_that_is_missing_or_not_ours(
    settings: Settings, code: str, status: int, kind: type[AzQueueError], words: str
) -> None:
    service, spark = a_query(8, settings)
    ours = spark.store
    with Server(says(status, x_ms_error_code=code)) as server:
        account = Account("acc", f"{server.url}/acc", sas="sv=1&sig=x")
        spark.store = BlobFolder(account, "logs", "orders")  # type: ignore[assignment]
        refused(service, spark, kind, words, free=8)

    spark.store = ours
    goes_on(service, spark, 8)


# ── whose it is ───────────────────────────────────────────────────────────────────────────────────


def identity(**changed: object) -> bytes:
    known = {"version": WRITE_AHEAD.version, "log": "3f" * 16, "account": "memory"}
    return sealed({**known, **changed})


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (identity(account="other"), LogConflict, "belongs to the account 'other'"),
        (identity(version=2), LogDamaged, "version 2, from before the first release"),
        (identity(version=9), LogDamaged, "wrote it: restore it, upgrade"),
    ],
)
def test_the_folder_of_another_account_or_version(
    settings: Settings, data: bytes, kind: type[AzQueueError], words: str
) -> None:
    service, spark = a_query(8, settings)
    ours, theirs = spark.store, MemoryLogStore()
    theirs.objects["log.json"] = data
    spark.store = theirs

    refused(service, spark, kind, words, free=8)

    assert theirs.objects == {"log.json": data}, "nothing was written there"
    spark.store = ours
    goes_on(service, spark, 8)


# ── what is in it ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("at", [8, 60, -40, -1])
def test_a_damaged_newest_segment(settings: Settings, at: int) -> None:
    service, spark = a_query(8, settings)
    spark.trigger(dies="after_log")
    name = "seg/000000000001"
    good = spark.store.objects[name]
    spark.store.damage(name, at)
    damaged = spark.store.objects[name]

    with pytest.raises(LogDamaged, match=r"Nothing was read from it or written over it"):
        spark.trigger()
    spark.kill()

    assert spark.store.objects[name] == damaged
    spark.store.objects[name] = good  # restored from a backup
    goes_on(service, spark, 8)


def test_a_segment_deleted_by_hand_stops_the_query(settings: Settings) -> None:
    service, spark = a_query(16, settings)
    spark.trigger(dies="after_log")
    name = "seg/000000000001"
    good = spark.store.objects.pop(name)

    before = service.clock.now()
    with pytest.raises(AzQueueError, match=r"restore|Restore"):
        spark.trigger()
    spark.kill()

    assert service.clock.now() - before < SECONDS
    spark.store.objects[name] = good
    goes_on(service, spark, 16)


def test_a_segment_deleted_by_hand_between_others_stops_the_query(settings: Settings) -> None:
    service, spark = a_query(24, settings)
    for _ in range(2):
        spark.trigger()
    spark.trigger(dies="after_log")
    good = spark.store.objects.pop("seg/000000000002")

    with pytest.raises(LostSegment, match=r"segment 2 .*restore it"):
        spark.trigger()
    spark.kill()

    spark.store.objects["seg/000000000002"] = good
    goes_on(service, spark, 24)


def test_with_fail_on_data_loss_false_it_goes_on_and_says_what_is_lost(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """deleteAfter=commit loses nothing; with log, the rows of that segment are gone."""
    service, spark = a_query(16, {**settings, "fail_on_data_loss": False})
    spark.trigger()
    spark.trigger(dies="planned")
    spark.history.clear()
    lost = 8 if settings["delete_after"] is DeleteAfter.LOG else 0
    spark.store.remove("seg/000000000002")

    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    send(service, "new")
    drain(spark)

    assert len(bodies(spark)) == 17 - lost
    assert len(set(bodies(spark))) == 17 - lost
    assert "new" in bodies(spark)
    assert service.views() == []
    assert "its batch is empty" in caplog.text
