"""What is asked of Hadoop, and what follows from its answers. tests/engine asks the real one."""

from __future__ import annotations

import errno
import os
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest
from fake_storage import sparks_error

from spark_azqueue.files.decide import Look
from spark_azqueue.files.hadoop import has_batches, is_on_disk, is_there, looks, qualified


class System:
    """A file system of Hadoop. folders: what is in each."""

    def __init__(self, host: str | None, folders: dict[str, list[str]]) -> None:
        self.host, self.folders = host, folders
        self.statuses: dict[str, str | int | None] = {}

    def getUri(self) -> Any:
        return SimpleNamespace(getAuthority=lambda: self.host)

    def exists(self, path: Path) -> bool:
        return path.text in self.folders

    def getFileStatus(self, path: Path) -> Any:
        found = self.statuses[path.text]
        if isinstance(found, str):
            raise sparks_error((found, path.text))
        return SimpleNamespace(isFile=lambda: found is not None, getLen=lambda: found)

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
    uri = SimpleNamespace(getScheme=lambda: default, toString=lambda: f"{default}://there/")
    settings = {"of the session": uri}
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


def test_a_path_without_a_scheme_is_of_the_default_file_system() -> None:
    assert qualified(spark("abfss"), "/data/x") == "abfss://there/data/x"
    assert qualified(spark("abfss"), "file:/data/x") == "file:/data/x"


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


def test_only_a_file_that_does_not_exist_is_gone() -> None:
    system = System("nn:8020", {})
    system.statuses = {
        "/a": 5,
        "/b": 0,
        "/folder": None,
        "/gone": "java.io.FileNotFoundException",
        "/12:30": "java.net.URISyntaxException",
        "/secret": "org.apache.hadoop.security.AccessControlException",
        "/away": "java.net.SocketTimeoutException",
    }
    seen = looks(spark("abfss", system), [*system.statuses])

    assert seen == [
        *(Look.FILE, Look.EMPTY, Look.NO_FILE, Look.GONE, Look.NO_NAME),
        *(Look.DENIED, Look.UNKNOWN),
    ]


def test_on_a_disk_the_operating_system_says_what_is_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java says of a file in a folder that nobody may enter that it does not exist."""
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("")
    os.mkfifo(tmp_path / "pipe")
    names = ["a", "b", "pipe", "", "gone", "a/below", "x" * 300]
    paths = [f"file:{tmp_path}/{name}" for name in names]

    assert looks(spark(), paths) == [
        *(Look.FILE, Look.EMPTY, Look.NO_FILE, Look.NO_FILE),
        *(Look.GONE, Look.GONE, Look.GONE),
    ]

    denied = {errno.EACCES, errno.EPERM, errno.ELOOP}
    for number in (*denied, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENOTCONN):

        def fail(path: str, number: int = number) -> None:
            raise OSError(number, os.strerror(number), path)

        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", fail)
            seen = looks(spark(), paths[:1])
        assert seen == [Look.DENIED if number in denied else Look.UNKNOWN]
