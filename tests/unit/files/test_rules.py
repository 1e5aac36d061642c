"""Which files are wanted, and how Spark is told their paths."""

from __future__ import annotations

import pytest

from spark_azqueue.files.memory import File
from spark_azqueue.files.record import FileList
from spark_azqueue.files.rules import (
    Root,
    is_hidden,
    is_inside,
    may_be_a_mount,
    path_below,
    roots_of,
    spark_path,
    trouble_with,
)

AZURITE = "http://127.0.0.1:10000/devstoreaccount1/landing"
ROOT = Root("shopdata/landing", "landing", "/mnt/landing/", "https://x/")


def test_a_container_of_azure_has_its_own_root() -> None:
    (root,) = roots_of("shopdata/landing").values()

    assert root.name == "shopdata/landing"
    assert root.spark == "abfss://landing@shopdata.dfs.core.windows.net/"
    assert root.https == "https://shopdata.blob.core.windows.net/landing/"


def test_another_root_may_be_given() -> None:
    roots = roots_of([AZURITE, "shopdata/a-b"], {AZURITE: "/mnt/x", "shopdata/a-b": "s3a://b/"})

    assert [root.spark for root in roots.values()] == ["/mnt/x/", "s3a://b/"]


@pytest.mark.parametrize(
    ("trusted", "paths", "says"),
    [
        ([], {}, "trusted is empty"),
        ("shop data/landing", {}, "names no container"),
        (AZURITE, {}, "say where Spark finds its files"),
        ("shopdata/landing", {"shopdata/other": "/mnt"}, "which is none of trusted"),
        ("shopdata/landing", {"shopdata/landing": "mnt/x"}, "is no absolute path: begin it"),
        (f"https://{'x' * 64}.corp/landing", {f"https://{'x' * 64}.corp/landing": "/x"}, "longer"),
        (
            ["shopdata/landing", "https://shopdata.blob.core.chinacloudapi.cn/landing"],
            {},
            "twice, at different addresses",
        ),
    ],
)
def test_what_names_no_place_is_refused(trusted: object, paths: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        roots_of(trusted, paths)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    ["_SUCCESS", "a/_temporary/0/part-0", "a/_delta_log/0.json", ".x", "a/.b/c", "x._COPYING_"],
)
def test_names_that_spark_hides_are_hidden(path: str) -> None:
    assert is_hidden(path)


@pytest.mark.parametrize("path", ["a.json", "_day=5/part-0", "a_b/c_d", "a./b"])
def test_other_names_are_not(path: str) -> None:
    assert not is_hidden(path)


@pytest.mark.parametrize(
    "path",
    [
        *("/a", "../a", "a/../b", "a/..", "./a", "a/.", "a\\b", "a\nb", "a\x7fb"),
        *("a%2fb", "a%2F..%2Fb", "a%252fb", "a%5cb", "a//b", "x" * 1025),
    ],
)
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    assert trouble_with(path)


@pytest.mark.parametrize("path", ["a/b.json", "..a/b..", "100%.json", "a%20b", "é/日本 ✓", "a:b"])
def test_other_paths_are_not(path: str) -> None:
    assert trouble_with(path) is None


def test_a_name_is_no_pattern() -> None:
    assert spark_path(ROOT, "a/*[x]{y}?.json") == r"/mnt/landing/a/\*\[x\]\{y\}\?.json"


@pytest.mark.parametrize("spark", ["/mnt/landing/", "file:/mnt/landing/", "file:///mnt/landing/"])
def test_a_listed_file_is_found_below_its_root(spark: str) -> None:
    root = ROOT._replace(spark=spark)

    assert path_below(root, "file:/mnt/landing/a b/c.json") == "a b/c.json"
    assert path_below(root, "file:///mnt/landing/c") == "c"
    assert path_below(root, "file:/mnt/landing2/c") is None


@pytest.mark.parametrize(
    ("spark", "found"),
    [
        ("/mnt/landing/", "dbfs:/mnt/landing/a b"),
        ("/mnt/landing/", "hdfs://nn:8020/mnt/landing/a b"),
        ("/mnt//landing/", "abfss://c@shop.dfs.core.windows.net/mnt/landing/a b"),
        ("hdfs:///mnt/landing/", "hdfs://nn/mnt/landing/a b"),
        ("DBFS:/mnt/landing/", "dbfs:/mnt/landing/a b"),
        ("abfss://c@shop.dfs.core.windows.net/", "abfss://c@shop.dfs.core.windows.net/a b"),
    ],
)
def test_sparks_default_file_system_may_be_any(spark: str, found: str) -> None:
    assert path_below(ROOT._replace(spark=spark), found) == "a b"


@pytest.mark.parametrize(
    ("spark", "found"),
    [
        ("s3a://b/", "s3a://c/x"),
        ("file:/mnt/landing/", "dbfs:/mnt/landing/x"),
        ("/mnt/landing/", "dbfs:/mnt/other/x"),
        ("/mnt/landing/", "landing"),
    ],
)
def test_a_file_of_another_place_is_not_below(spark: str, found: str) -> None:
    assert path_below(ROOT._replace(spark=spark), found) is None


@pytest.mark.parametrize(
    ("spark", "path", "inside"),
    [
        ("abfss://landing@shopdata.dfs.core.windows.net/", "", False),
        ("file:/mnt/landing/", "file:/mnt/landing", True),
        ("file:/mnt/landing/", "FILE:///mnt//landing/_log", True),
        ("file:/mnt/landing/", "/mnt/landing/_log", True),
        ("/mnt/landing/", "dbfs:/mnt/landing/_log", True),
        ("file:/mnt/landing/", "dbfs:/mnt/landing/_log", False),
        ("/mnt/landing/", "dbfs:/mnt/landing2", False),
        ("s3a://b/in/", "s3a://b/in/x", True),
        ("s3a://b/in/", "s3a://c/in/x", False),
        ("/mnt/landing/", "wasbs://landing@shopdata.blob.core.windows.net/x", True),
        ("/mnt/landing/", "abfss://other@shopdata.dfs.core.windows.net/x", False),
    ],
)
def test_a_folder_in_a_container_that_is_read_is_known(spark: str, path: str, inside: bool) -> None:
    """By any scheme that Spark may use for it: what is written there would be announced."""
    assert is_inside(ROOT._replace(spark=spark), path) is inside


@pytest.mark.parametrize(
    ("spark", "may_be"),
    [
        ("/mnt/landing/", True),
        ("file:///mnt/landing/", True),
        ("dbfs:/mnt/landing/", True),
        ("abfss://c@shop.dfs.core.windows.net/", False),
    ],
)
def test_what_has_no_host_may_be_a_mount(spark: str, may_be: bool) -> None:
    assert may_be_a_mount(ROOT._replace(spark=spark)) is may_be


@pytest.mark.parametrize(
    "trusted",
    [
        "shopdata/landing",
        "shopdata/$web",
        "https://my-host.corp/landing",
        "http://10.0.0.5/landing",
        "http://[fe80::1]:10000/devstoreaccount1/landing",
        "http://[fe80::1]/landing",
        "https://shopdata-secondary.blob.core.windows.net/landing",
    ],
)
def test_the_log_takes_what_may_be_trusted(trusted: str) -> None:
    """A list that is written can be read again."""
    (name,) = roots_of(trusted, {trusted: "/mnt"})
    record = FileList(1, -1, 5.0, [File(name, "a", "", 1.0)], [])

    assert FileList.read(record.to_bytes(), 1) == record
