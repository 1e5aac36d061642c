"""What `read_new_files` refuses before it asks Spark or the service anything."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from spark_azqueue import read_new_files

ACCOUNT = f"AccountName=shopdata;AccountKey={'A' * 86}==;EndpointSuffix=core.windows.net"
OPTIONS = {"queue": "arrived", "secret.connectionString": ACCOUNT}


class AskedError(Exception):
    """Spark was asked for something."""


class Spark:
    """A session that nobody may use yet."""

    def __getattr__(self, name: str) -> Any:
        if name == "_jsparkSession":
            return None
        raise AskedError


def start(spark: Any, options: Any = OPTIONS, **more: Any) -> None:
    read_new_files(
        spark,
        options,
        **{
            "trusted": "shopdata/landing",
            "format": "json",
            "schema": "id INT",
            "each": lambda rows, number: None,
            "checkpoint": "/checkpoints/x",
            "log": "file:/checkpoints/x/files",
            **more,
        },
    )


def test_spark_connect() -> None:
    """Its function runs in a process of the server, where the log is not."""
    with pytest.raises(ValueError, match="does not work on Spark Connect"):
        start(SimpleNamespace())


def test_more_files_to_remember_than_a_snapshot_holds() -> None:
    with pytest.raises(ValueError, match=r"10,000,001 is more than a log can hold \(10,000,000\)"):
        start(Spark(), max_files_remembered=10_000_001)


SLIPS = [
    *("*.json&*.csv", "*.json OR *.csv", "*.json and *.csv", "*.json AND NOT x*.csv", "*.json  *"),
    *("*.json&&*.csv", "*.json && *.csv", "*.json + *.csv", "*.json+*.csv", "*.json:*.csv"),
    *("*.json or part-?.csv", "part-*.json part-*.csv", "*.json\t*.csv", "*.json,", "*.json;"),
    *("{*.json,*.csv} or {*.txt,*.xml}", "{a,b} OR {c,d}", "*.{json,csv} or *.txt"),
    *("*.{json|csv}", "*.{json;csv}", "*.{json csv}", "{*.json *.csv}", "{*.json&*.csv}"),
    *(" *.json", "*.json ", "*.json\n", "\N{NO-BREAK SPACE}*.json", "* .json", "*. json"),
    *("\N{ZERO WIDTH NO-BREAK SPACE}*.json", "*.json\N{ZERO WIDTH SPACE}", "*.js\non"),
    *("{*.json, *.csv}", "*.{json, csv}", "*.{ json,csv}", "*.{json,csv }", "{}", "*.{}", "*.{,}"),
    *("*.json$", "^*.json", "!*.json", "(?i)*.json", "*.(json)", "*.(json|csv)", r"\w*.json"),
    *("%.json", "%json", "glob:*.json", "regex:.*json", "json", "CSV", r"*.json\\", r"in\a.json"),
    *("'*.json'", '"*.json"', "`*.json`", "\u201c*.json\u201d", "['*.json']", "[*.json,*.csv]"),
    *("*.[json,csv]", "*.[json]", "{.json,.csv}", "{.json,*.csv}", "{_a,_b}*", r".*\.json", "[/]*"),
]
"""Patterns that match nothing, or less than they seem to."""

GLOBS = [
    *("*", "*.json", "*.{json,jsonl}", "[a-c,;]*.csv", "a\\,b.csv", "x y*.json", "_day=*.json"),
    *("day_*.csv", "*.json{,.gz}", "{a,{b,c}}d*", "part-?[0-9].{csv,csv.gz}", "a&b*.json", "a+b*"),
    *("{Monthly report,Weekly report}*.csv", "report and summary*.csv", "*sales and costs*.csv"),
    *(
        "*.*.json",
        "*.tar.*",
        "* copy.json",
        "day=2026-??-??T??:00*.json",
        "100%25*.json",
        "*%.json",
    ),
    *(r"*.json\$", r"\!x*", r"\^a*", r"*v1.2\ rev*.csv", r"\ x*", r"*x\ ", r"\*.json", "$x*.csv"),
    *(
        "b",
        "manifest",
        "[!a]*",
        "[^_]*.csv",
        "*.[ch]",
        "{_day=5,x}*",
        "Zürich*日本.json",
        "{a b,c}*",
    ),
    *("*.{json}", "it's*", "a {b,c} {d,e}.csv", "*.c++", "{x&y,z}*.csv", "(1)*.csv", "report (?)*"),
]

GOOD: dict[str, list[Any]] = {
    "trusted": [["shopdata/landing", "shopdata/other"], ("shopdata/landing",)],
    "format": ["csv", "com.example.format"],
    "each": [print, SimpleNamespace],
    "checkpoint": ["/checkpoints/y", "abfss://state@shopdata.dfs.core.windows.net/landing"],
    "schema": [None, "id INT, name STRING"],
    "reader_options": [None, {}, {"multiLine": True, "sep": ";", "mode": "PERMISSIVE"}],
    "log": ["file:/data/log", "blob:state/landing"],
    "paths": [None, {"shopdata/landing": "/mnt/landing"}, {"shopdata/landing": "file:/landing"}],
    "include_existing_files": [True, False],
    "max_files_per_trigger": [1, 1000],
    "path_glob_filter": [None, *GLOBS],
    "backfill_interval": [None, 0.5, 3600],
    "max_file_age": [None, 14 * 86_400, 1e9],
    "max_files_remembered": [1, 10_000_000],
    "set_aside_queue": [None, "arrived-bad"],
    "available_now": [True, False],
    "processing_time": [None, "5 seconds"],
    "query_name": [None, "orders"],
}

_NO_TEXTS = ["", "  ", 5, b"x", True, ["x"], math.nan]
_NO_FLAGS = [None, 0, 1, "true", "", math.nan, []]
_NO_WHOLE_NUMBERS = [None, 0, -1, 1.5, True, "5", "", math.nan, math.inf, []]
_NO_SECONDS = [0, -1, True, "5", "", math.nan, math.inf, -math.inf, 10**400, []]
_NO_MAPPINGS = [5, "x", ["x"], {5: "x"}, {"x": None}, {"x": ["y"]}]

BAD: dict[str, list[Any]] = {
    "trusted": [
        *(None, "", [], 5, b"shopdata/landing", {"shopdata/landing": "x"}, [None], [""], "landing"),
        *("shopdata/landing/in", "https://shopdata.blob.core.windows.net/landing?sig=x"),
    ],
    "format": [None, *_NO_TEXTS],
    "each": [None, "x", 5],
    "checkpoint": [
        *(None, *_NO_TEXTS),
        "abfss://landing@shopdata.dfs.core.windows.net/checkpoints/x",
        "abfss://landing@shopdata.dfs.core.windows.net",
        "wasbs://landing@shopdata.blob.core.windows.net/_hidden/x",
    ],
    "schema": ["", "  ", 5, b"x", ["id INT"]],
    "reader_options": [
        *_NO_MAPPINGS,
        *({name: "x"} for name in ("pathGlobFilter", "modifiedBefore", "MODIFIEDAFTER")),
        *({name: "x"} for name in ("basePath", "path", "paths", "recursiveFileLookup")),
        *({name: "true"} for name in ("ignoreMissingFiles", "ignoreCorruptFiles")),
    ],
    "log": [*_NO_TEXTS, "/data/log", "blob:landing/log", "blob:x", "file:log", "file:/a/../b"],
    "paths": [
        *_NO_MAPPINGS,
        {"shopdata/landing": ""},
        {"shopdata/landing": "mnt/landing"},
        {"shopdata/landing": "/mnt/x/../landing"},
        {"shopdata/landing": "/checkpoints"},
        {"shopdata/landing": "file:/checkpoints/x"},
        {"shopdata/landing": "/"},
        {"shopdata/other": "/mnt/other"},
    ],
    "include_existing_files": _NO_FLAGS,
    "max_files_per_trigger": [*_NO_WHOLE_NUMBERS, 10**9],
    "path_glob_filter": [
        *_NO_TEXTS,
        *("in/*.json", "/x", "**/*.csv", "*.json,*.csv", "*.json;*.csv", "*.json|*.csv"),
        *("*.json *.csv", "[", "*.{json", ".*", "_*", "*._COPYING_", *SLIPS),
    ],
    "allow_overwrites": _NO_FLAGS,
    "backfill_interval": _NO_SECONDS,
    "max_file_age": [*_NO_SECONDS, 14 * 86_400 - 1],
    "max_files_remembered": [*_NO_WHOLE_NUMBERS, 10_000_001],
    "set_aside_queue": [*_NO_TEXTS, "arrived", " arrived ", "Bad", "a", "a--b", "a,b", "x" * 64],
    "available_now": _NO_FLAGS,
    "processing_time": _NO_TEXTS,
    "query_name": _NO_TEXTS,
    "options": [
        *(None, *_NO_MAPPINGS, {}),
        *({"queue": name} for name in ("", "arrived,other", "arrived-*")),
        *({"deleteOnCommit": value} for value in ("false", " False ", False)),
        *({name: "5"} for name in ("maxMessagesPerTrigger", "MAXMESSAGESPERTRIGGER", "x")),
        {"messageEncoding": "utf-99"},
        {"writeAheadLog": "blob:landing/wal"},
    ],
}


def cases(table: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(name, value, id=f"{name}={value!r:.60}")
        for name, values in table.items()
        for value in values
    ]


def given(name: str, value: Any) -> dict[str, Any]:
    if name != "options" or not isinstance(value, dict):
        return {name: value}
    return {name: {**OPTIONS, **value} if value else {}}


@pytest.mark.parametrize(("name", "value"), cases(BAD))
def test_an_odd_value_is_refused_before_anything_is_asked(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"(?s).{20}"):
        start(Spark(), **given(name, value))


@pytest.mark.parametrize(("name", "value"), cases(GOOD))
def test_a_value_that_fits_is_not_refused(name: str, value: Any) -> None:
    with pytest.raises(AskedError):
        start(Spark(), **given(name, value))


@pytest.mark.parametrize("glob", SLIPS)
def test_a_slip_in_a_pattern_says_what_it_is(glob: str) -> None:
    says = "has a|are left out|looks like|leave|write"
    with pytest.raises(ValueError, match=rf"(?s)path_glob_filter .*(?:{says})") as raised:
        start(Spark(), path_glob_filter=glob)
    assert repr(glob) in str(raised.value)


def test_every_argument_is_in_the_table() -> None:
    arguments = {*read_new_files.__annotations__} - {"return", "spark"}

    assert arguments == BAD.keys()


def test_containers_in_each_other_would_have_each_file_twice() -> None:
    trusted = ["shopdata/landing", "shopdata/archive"]
    for outer, inner in (("/mnt", "/mnt/archive"), ("/mnt/x", "file:/mnt/x"), ("/", "dbfs:/a")):
        for paths in ([outer, inner], [inner, outer]):
            with pytest.raises(ValueError, match="its files would be read twice"):
                start(Spark(), trusted=trusted, paths=dict(zip(trusted, paths, strict=True)))
    with pytest.raises(AskedError):
        start(
            Spark(), trusted=trusted, paths=dict(zip(trusted, ["/mnt/a", "/mnt/ab"], strict=True))
        )


def test_two_triggers() -> None:
    with pytest.raises(ValueError, match="two triggers"):
        start(Spark(), available_now=True, processing_time="5 seconds")


def test_an_encoding_for_reading_alone_is_not_for_what_is_written() -> None:
    """Else the first bad event would find out, and stop the query for good."""
    with pytest.raises(AskedError):
        start(Spark(), {**OPTIONS, "messageEncoding": "auto"})
