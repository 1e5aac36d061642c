"""What the functions of events ask of Spark, without a Spark: their plans for Spark Connect."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructType

from spark_azqueue import blob_events, parsed_events


@pytest.fixture
def frame(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Connect DataFrame with a column `body`, and no server."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import Read

    monkeypatch.setattr(DataFrame, "columns", property(lambda _: ["message_id", "body"]))
    return DataFrame(Read("messages"), SimpleNamespace(client=None))


TRUSTED = "shopdata/landing"


def plan(frame: Any) -> str:
    return str(frame._plan.plan(None))


OF_SPARK_4_0 = {
    *("==", "<", ">", "!=", "and", "or", "not", "+", "when", "in", "isNull", "isNotNull"),
    *("array", "coalesce", "concat", "concat_ws", "contains", "from_json", "get", "size"),
    *("get_json_object", "inline", "map", "octet_length", "regexp_extract", "replace", "rlike"),
    *("startsWith", "struct", "to_json", "transform", "trim", "try_parse_json"),
    *("try_to_binary", "try_url_decode", "try_validate_utf8", "try_variant_get", "upper"),
    *("url_encode", "variant_get", "parse_json", "is_variant_null"),
}


def test_they_use_functions_of_spark_4_0_alone(frame: Any) -> None:
    schema = StructType().add("api", "string")
    kinds = (parsed_events(frame), parsed_events(frame, schema), parsed_events(frame, "variant"))
    for made in (*kinds, blob_events(frame, trusted=TRUSTED)):
        text = plan(made)
        assert "python" not in text.lower(), "no function of Python"
        assert set(re.findall(r'function_name: "(\S+)"', text)) <= OF_SPARK_4_0


def test_every_reason_is_on_the_page(frame: Any) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "files.md").read_text(encoding="utf-8")
    schema = StructType().add("api", "string")
    text = plan(parsed_events(frame, schema)) + plan(blob_events(frame, trusted=TRUSTED))

    found = {
        found.replace("\\'", "'") for found in re.findall(r'string: "(\w+ [^"]*|\w+: )"', text)
    }
    reasons = {found for found in found if "STRING" not in found}

    assert len(reasons) == 20
    assert [reason for reason in reasons if reason not in page] == []


def test_what_does_not_fit_is_refused(frame: Any) -> None:
    with pytest.raises(ValueError, match="has id, Reason already: rename or drop it"):
        parsed_events(named(frame, ["body", "id", "Reason"]))
    with pytest.raises(ValueError, match="has path already"):
        blob_events(named(frame, ["body", "path"]), trusted=TRUSTED)
    with pytest.raises(TypeError, match="the schema of data is a struct or variant, not int"):
        parsed_events(frame, IntegerType())


def named(frame: Any, columns: list[str]) -> Any:
    return SimpleNamespace(columns=columns)
