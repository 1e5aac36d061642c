"""Files that the job may not look at: they stop the query, and no longer than for three starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_storage import Container, Thing, cannot_read

from spark_azqueue.files.decide import Look
from spark_azqueue.files.denials import STARTS, Denials
from spark_azqueue.files.log import FileLog
from spark_azqueue.files.memory import Bounds, File, Memory
from spark_azqueue.files.reading import Files
from spark_azqueue.files.rules import roots_of
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.service.names import FILES

HERE = "shopdata/landing"
DENIED = {(HERE, "lost+found/x"): Look.DENIED, (HERE, "a"): Look.FILE}
(ROOT,) = roots_of(HERE, {HERE: "file:/mnt/landing"}).values()


def start(folder: Path) -> Denials:
    """A start of the query."""
    log = FileLog(FileStore(str(folder / "log"), FILES), "shopdata", Memory(Bounds()))
    log.open()
    return log.denials


def marks(folder: Path) -> int:
    return len([*(folder / "log").glob("denied/*")])


def test_the_third_start_lets_them_be_quarantined_and_so_do_later_ones(tmp_path: Path) -> None:
    for number in range(1, STARTS):
        with pytest.raises(OSError, match=rf"lost\+found/x .* At start 3 .* was start {number}"):
            start(tmp_path).check(DENIED)

    for _ in range(3):
        start(tmp_path).check(DENIED)
    assert marks(tmp_path) == STARTS


def test_a_start_counts_once(tmp_path: Path) -> None:
    now = start(tmp_path)
    for _ in range(STARTS + 1):
        with pytest.raises(OSError, match="this was start 1"):
            now.check(DENIED)


def test_each_folder_of_each_container_counts_for_itself(tmp_path: Path) -> None:
    for _ in range(STARTS - 1):
        with pytest.raises(OSError, match="may not look at"):
            start(tmp_path).check(DENIED)
    now = start(tmp_path)

    now.check({(HERE, "lost+found/deep/y"): Look.DENIED})
    for other in ((HERE, "closed/x"), ("shopdata/other", "lost+found/x")):
        with pytest.raises(OSError, match="this was start 1"):
            now.check({**DENIED, other: Look.DENIED})


def test_a_folder_that_was_mended_begins_anew(tmp_path: Path) -> None:
    for _ in range(STARTS - 1):
        with pytest.raises(OSError, match="may not look at"):
            start(tmp_path).check(DENIED)

    start(tmp_path).check({(HERE, "lost+found/x"): Look.FILE})

    assert marks(tmp_path) == 0
    with pytest.raises(OSError, match="this was start 1"):
        start(tmp_path).check(DENIED)


@pytest.fixture
def mounted() -> Container:
    """A container on a disk with a folder into which the job may not look."""
    return Container(ROOT, {"lost+found": Thing("folder"), "a": Thing("good")})


def look(container: Container, *paths: str, or_denied: bool = True) -> dict[str, Look]:
    def looks(spark: object, asked: list[str]) -> list[Look]:
        closed = [path.startswith(f"{ROOT.spark}lost+found/") for path in asked]
        found = container.looks(spark, asked)
        return [Look.DENIED if c else f for c, f in zip(closed, found, strict=True)]

    files = Files({HERE: ROOT}, "json", "id INT", {}, lambda *given: True, looks)  # type: ignore[arg-type]
    named = [File(HERE, path) for path in paths]
    found = files.look(container, named, or_denied=or_denied)  # type: ignore[arg-type]
    return {path: each for (_, path), each in found.items()}


def test_a_folder_is_closed_if_another_file_can_be_looked_at(mounted: Container) -> None:
    assert look(mounted, "a", "lost+found/x") == {"a": Look.FILE, "lost+found/x": Look.DENIED}


def test_a_folder_is_closed_if_it_can_be_looked_at_itself(mounted: Container) -> None:
    assert look(mounted, "lost+found/x") == {"lost+found/x": Look.DENIED}


def test_if_nothing_can_be_looked_at_no_folder_is_closed(mounted: Container) -> None:
    """As after a slip in the rights of the container: all of its files would be quarantined."""
    del mounted.things["lost+found"]

    with pytest.raises(OSError, match="it is not known what is at"):
        look(mounted, "lost+found/x")


def test_a_failing_read_quarantines_nothing_that_may_not_be_looked_at(mounted: Container) -> None:
    """It stops the query. The next start counts it."""
    with pytest.raises(OSError, match="the job may not look at it"):
        look(mounted, "a", "lost+found/x", or_denied=False)


def test_where_only_spark_can_look_its_error_says_that_it_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (root,) = roots_of(HERE).values()
    container = Container(root, {"a": Thing("good"), "closed/x": Thing("good")}, only_spark=True)
    load = container.read.load.__func__  # type: ignore[attr-defined]

    def denied(self: object, paths: list[str]) -> object:
        if any("closed" in path for path in paths):
            raise cannot_read("java.nio.file.AccessDeniedException", "403")
        return load(self, paths)

    monkeypatch.setattr("fake_storage.Reading.load", denied)
    files = Files({HERE: root}, "json", "id INT", {}, container.is_there, container.looks)
    named = [File(HERE, "a"), File(HERE, "closed/x")]

    found = files.look(container, named, or_denied=True)  # type: ignore[arg-type]

    assert found == {(HERE, "a"): Look.FILE, (HERE, "closed/x"): Look.DENIED}
