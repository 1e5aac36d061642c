"""What is asked of Hadoop, and what follows from its answers. tests/engine asks the real one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_azqueue.arrivals.hadoop import has_batches, is_on_disk, is_there


class System:
    """A file system of Hadoop. folders: what is in each."""

    def __init__(self, host: str | None, folders: dict[str, list[str]]) -> None:
        self.host, self.folders = host, folders

    def getUri(self) -> Any:
        return SimpleNamespace(getAuthority=lambda: self.host)

    def exists(self, path: Path) -> bool:
        return path.text in self.folders

    def listStatus(self, path: Path) -> list[Any]:
        return [
            SimpleNamespace(getPath=lambda name=name: SimpleNamespace(getName=lambda: name))
            for name in self.folders[path.text]
        ]

    def listStatusIterator(self, path: Path) -> Any:
        return SimpleNamespace(hasNext=lambda: bool(self.folders[path.text]))


class Path:
    """A path of Hadoop, in the one file system that there is."""

    system: System

    def __init__(self, text: str) -> None:
        self.text = text

    def getFileSystem(self, settings: str) -> System:
        assert settings == "of the session"
        return self.system


def spark(default: str = "file", system: System | None = None) -> Any:
    """A session of Spark with this default file system."""
    kind = type("PathThere", (Path,), {"system": system})
    settings = {"of the session": SimpleNamespace(getScheme=lambda: default)}
    hadoop = SimpleNamespace(
        Path=kind, FileSystem=SimpleNamespace(getDefaultUri=settings.__getitem__)
    )
    jvm = SimpleNamespace(
        org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=hadoop)))
    )
    state = SimpleNamespace(newHadoopConf=lambda: "of the session")
    return SimpleNamespace(
        sparkContext=SimpleNamespace(_gateway=SimpleNamespace(jvm=jvm)),
        _jsparkSession=SimpleNamespace(sessionState=lambda: state),
    )


@pytest.mark.parametrize(
    ("path", "default", "on_disk"),
    [
        ("/data/x", "file", True),
        ("/data/x", "dbfs", False),
        ("/data/x", "abfss", False),
        ("file:/data/x", "dbfs", True),
        ("FILE:///data/x", "dbfs", True),
        ("dbfs:/data/x", "file", False),
    ],
)
def test_where_spark_finds_a_checkpoint(path: str, default: str, on_disk: bool) -> None:
    assert is_on_disk(spark(default), path) is on_disk


@pytest.mark.parametrize(
    ("host", "folders", "there"),
    [
        ("nn:8020", {"/in/": []}, True),
        (None, {"/in/": ["a"]}, True),
        (None, {"/in/": []}, False),
        (None, {}, False),
        ("nn:8020", {}, False),
    ],
)
def test_an_empty_folder_without_a_host_may_be_a_lost_mount(
    host: str | None, folders: dict[str, list[str]], there: bool
) -> None:
    assert is_there(spark(system=System(host, folders)), "/in/") is there


@pytest.mark.parametrize(
    ("folders", "has"),
    [
        ({}, False),
        ({"/c/offsets": []}, False),
        ({"/c/offsets": [".0.tmp", "x"]}, False),
        ({"/c/offsets": [".1.tmp", "0"]}, True),
    ],
)
def test_what_a_checkpoint_says_of_batches(folders: dict[str, list[str]], has: bool) -> None:
    assert has_batches(spark(system=System(None, folders)), "/c/") is has
