"""`blob_events` and bodies that somebody made to steer or to end the job."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hostile_events import CREATED, ELSEWHERE, PATH, TOO_MUCH, event
from pyspark.sql import Row, SparkSession
from storage_events import BLOB, DFS, base64_of

from spark_azqueue import blob_events

AZURITE = "http://127.0.0.1:10000/devstoreaccount1"
TRUSTED = ["shopdata/landing", f"{AZURITE}/landing"]
LEADS = ("account", "container", "path", "renamed_from", "abfss", "wasbs", "https")


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[str, list[Row]]:
    """What is made of each body, by its name here; in one job."""
    given = {**ELSEWHERE, **TOO_MUCH, **{f"64: {k}": base64_of(v) for k, v in TOO_MUCH.items()}}
    frame = spark.createDataFrame(list(given.items()), "name STRING, body STRING").coalesce(1)
    found: dict[str, list[Row]] = {name: [] for name in given}
    for row in blob_events(frame, trusted=TRUSTED).collect():
        found[row.name].append(row)
    return found


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_leads_elsewhere_gives_no_path_but_a_reason(
    rows: dict[str, list[Row]], name: str
) -> None:
    (row,) = rows[name]

    assert row.reason is not None
    assert {lead: row[lead] for lead in LEADS} == dict.fromkeys(LEADS)
    assert (row.body, row.change) == (ELSEWHERE[name], "created"), "the rest stays"


@pytest.mark.parametrize("form", ["", "64: "])
@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_much_is_one_row_with_its_reason(
    rows: dict[str, list[Row]], name: str, form: str
) -> None:
    (row,) = rows[form + name]

    assert row.reason is not None
    assert row.body == (base64_of(TOO_MUCH[name]) if form else TOO_MUCH[name])
    assert row.path is None


def one(spark: SparkSession, body: str, trusted: Any = TRUSTED) -> Row:
    (row,) = blob_events(spark.createDataFrame([(body,)], "body STRING"), trusted=trusted).collect()
    return row


def test_addresses_are_compared_after_normalising(spark: SparkSession) -> None:
    for url in (
        f"HTTPS://ShopData.Blob.Core.Windows.Net/landing/{PATH}",
        f"https://shopdata.blob.core.windows.net:443/landing/{PATH}",
        f"{DFS}/landing/{PATH}",
        f"http://shopdata.blob.core.windows.net/landing/{PATH}",
    ):
        row = one(spark, event(url))

        assert (row.reason, row.account, row.container) == (None, "shopdata", "landing"), url
        assert row.https == f"{BLOB}/landing/{PATH}", "made from what is trusted"
        assert row.abfss == f"abfss://landing@shopdata.dfs.core.windows.net/{PATH}"


def test_an_endpoint_that_is_none_of_azures(spark: SparkSession) -> None:
    row = one(spark, event(f"{AZURITE}/landing/in/a%20b.json", path="in/a b.json"))

    assert (row.reason, row.account, row.path) == (None, "devstoreaccount1", "in/a b.json")
    assert row.https == f"{AZURITE}/landing/in/a%20b.json"
    assert (row.abfss, row.wasbs) == (None, None)


def test_an_old_name_that_leads_elsewhere_is_null(spark: SparkSession) -> None:
    def old(url: str) -> Any:
        kind = "Microsoft.Storage.BlobRenamed"
        body = event("", sourceUrl=url, destinationUrl=f"{DFS}/landing/{PATH}")
        row = one(spark, body.replace(CREATED.type, kind))
        assert (row.reason, row.change, row.path) == (None, "renamed", PATH)
        return row.renamed_from

    assert old(f"{DFS}/landing/in/old.tmp") == "in/old.tmp"
    assert old(f"{DFS}/secrets/a") is None
    assert old(f"{DFS}/landing/../secrets/a") is None
    assert old("https://files.evil.test/landing/a") is None


def test_a_list_carries_its_body_once(spark: SparkSession) -> None:
    body = "[" + ",".join([event(f"{BLOB}/landing/{PATH}")] * 300) + "]"
    frame = spark.createDataFrame([(body,)], "body STRING")

    found = blob_events(frame, trusted=TRUSTED).select("event_index", "body", "path").collect()

    assert [row.event_index for row in found] == list(range(300))
    assert [row.body for row in found] == [body, *[None] * 299]
    assert {row.path for row in found} == {PATH}


def test_a_name_is_no_pattern_in_the_recipe(spark: SparkSession, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    (escape,) = re.findall(r're\.sub\(r"(.*)", r"(.*)", path\)', page)
    for name in ("a.json", "*.json", "{a,b}.json", "[a].json", "?.json"):
        (tmp_path / name).write_text(json.dumps({"name": name}))

    for name in ("*.json", "{a,b}.json", "[a].json", "?.json"):
        rows = spark.read.json(re.sub(*escape, str(tmp_path / name))).collect()
        assert [row.name for row in rows] == [name]
