"""`explain`: our sentence in an error of Spark, what to do, and the part of the page about it."""

from __future__ import annotations

import configparser
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from raised import CLASSES

import spark_azqueue
from spark_azqueue.errors import AzQueueError, QueueNotFound
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.errors.explanation import explain, page_address

ROOT = Path(__file__).resolve().parents[2]
STREAM = (
    "[STREAM_FAILED] Query [id = 8d42, runId = 11aa] terminated with exception:"
    " [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source"
    " performs latestOffset: {}spark_azqueue.errors.QueueNotFound:"
    " [AZQUEUE_QUEUE_NOT_FOUND] could not read from queue 'oders' of account 'shop': HTTP 404"
    " QueueNotFound. Create the queue{}\n"
    "=== Streaming Query ===\nCurrent Committed Offsets: {{}}\n"
)
SENTENCE = (
    "could not read from queue 'oders' of account 'shop': HTTP 404 QueueNotFound. Create the queue"
)


@pytest.mark.parametrize("before", ["", "Traceback (most recent call last):\n  File …, in f\n"])
@pytest.mark.parametrize("after", ["", " SQLSTATE: XXKST", "\n SQLSTATE: XXKST"])
def test_the_sentence_is_found_in_an_error_of_a_query(before: str, after: str) -> None:
    explanation = explain(STREAM.format(before, after))

    assert explanation.error == "QueueNotFound"
    assert explanation.sentence == SENTENCE
    assert "createQueue=true" in explanation.remedy
    assert explanation.page == f"{page_address()}#azqueue_queue_not_found"


def test_as_text_it_has_three_lines_and_no_offsets() -> None:
    lines = str(explain(STREAM.format("", ""))).splitlines()

    assert lines[0] == f"QueueNotFound: {SENTENCE}"
    assert lines[1].startswith("What to do: correct the name of the queue")
    assert lines[2:] == [f"More: {page_address()}#azqueue_queue_not_found"]


IN_A_TASK = """[STREAM_FAILED] Query [id = 8d42] terminated with exception:\
 [PYTHON_EXCEPTION] An exception was thrown: Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 1800, in main
    process()
  File "/app/orders.py", line 32, in <lambda>
    bad = udf(lambda body: 1 / 0, "string")
                           ~~^~~
{}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
"""


@pytest.mark.parametrize(
    ("raised", "error", "said"),
    [
        ("ZeroDivisionError: division by zero", "ZeroDivisionError", "division by zero"),
        ("shop.errors.Closed", "shop.errors.Closed", "without a text"),
    ],
)
def test_of_an_exception_of_the_users_code_the_last_line_and_its_place(
    raised: str, error: str, said: str
) -> None:
    explanation = explain(IN_A_TASK.format(raised))

    assert explanation.error == error
    assert explanation.sentence == f"{said} (raised in <lambda>, /app/orders.py, line 32)"
    assert "maxDequeueCount" in explanation.remedy


IN_A_BATCH = """[STREAM_FAILED] Query [id = 8d42, runId = 7] terminated with exception:\
 [FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred. Reason: Traceback (most recent call last):
  File "/lib/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/app/orders.py", line 17, in take
    batch.write.parquet(folder)
  File "/lib/py4j/protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
{}
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
"""
BY_A_CALL = "py4j.protocol.Py4JJavaError: An error occurred while calling o62.parquet."
OF_A_WORKER = """pyspark.errors.exceptions.captured.PythonException: {}
Traceback (most recent call last):
  File "/app/rows.py", line 7, in total
    raise ValueError("no such customer: 17")
ValueError: no such customer: 17
"""


@pytest.mark.parametrize(
    ("raised", "error", "said"),
    [
        (
            f"{BY_A_CALL}\n: org.apache.spark.SparkException: [MALFORMED] Bad record."
            " SQLSTATE: 22023\n\tat org.apache.spark.A(B.scala:1)\nCaused by:"
            " com.fasterxml.JsonParseException:"
            " Unrecognized token 'oops'\n\tat a.B\n",
            "org.apache.spark.SparkException",
            "[MALFORMED] Bad record. Caused by com.fasterxml.JsonParseException: Unrecognized token"
            " 'oops' (raised in take, /app/orders.py, line 17)",
        ),
        (
            f"{BY_A_CALL}\n: java.lang.IllegalStateException: closed\nCaused by: a.B: closed",
            "java.lang.IllegalStateException",
            "closed (raised in take, /app/orders.py, line 17)",
        ),
        (
            BY_A_CALL,
            "py4j.protocol.Py4JJavaError",
            "An error occurred while calling o62.parquet."
            " (raised in take, /app/orders.py, line 17)",
        ),
        *(
            (
                OF_A_WORKER.format(said),
                "ValueError",
                "no such customer: 17 (raised in total, /app/rows.py, line 7)",
            )
            for said in ("An exception was thrown from the Python worker:", "\n  Please see below.")
        ),
        (
            "of.NumberFormatException: [CAST_INVALID_INPUT] The value 'oops'. SQLSTATE: 22018",
            "of.NumberFormatException",
            "[CAST_INVALID_INPUT] The value 'oops'. (raised in take, /app/orders.py, line 17)",
        ),
    ],
)
def test_of_an_exception_in_sparks_wrappers_what_they_wrap(
    raised: str, error: str, said: str
) -> None:
    explanation = explain(IN_A_BATCH.format(raised))

    assert (explanation.error, explanation.sentence) == (error, said)


def test_tracebacks_within_tracebacks_take_linear_time() -> None:
    """Quadratic time would not end."""
    assert explain("  Traceback (most recent call last):\n" * 300_000).error == "text"


def test_of_a_query_without_python_code_what_ended_it() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 8d42, runId = 7] terminated with exception:"
        " [CAST_INVALID_INPUT] The value 'oops'. SQLSTATE: 22018 SQLSTATE: XXKST"
        "\n=== Streaming Query ==="
    )

    assert explain(text).sentence == "[CAST_INVALID_INPUT] The value 'oops'."


def test_of_an_exception_inside_pyspark_its_own_place() -> None:
    text = IN_A_TASK.format("OSError: full").replace("/app/", "/lib/pyspark/")

    assert "/lib/pyspark/orders.py, line 32" in explain(text).sentence


@pytest.mark.parametrize("text", ["", "Traceback (most recent call last):", "Traceback\nA: b"])
def test_a_text_with_half_a_traceback(text: str) -> None:
    assert explain(text).remedy.startswith("this error does not come from spark-azqueue")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "azqueue" cannot be written in the'
            ' "ErrorIfExists" mode. Please use either the "Append" or "Overwrite" mode instead.',
            r"append.*overwrite.*refused",
        ),
        ("Data source azqueue does not support continuous processing.", r"processingTime='0 sec"),
        (
            "java.lang.IllegalStateException: Unknown type of trigger: ContinuousTrigger(1000)",
            r"processingTime='0 sec",
        ),
        ("[STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED] Streaming …", "processingTime"),
    ],
)
def test_what_spark_refuses_has_another_way(text: str, told: str) -> None:
    remedy = explain(text).remedy

    assert re.search(told, remedy)
    assert "\n" not in remedy


class OfSpark(Exception):  # noqa: N818
    """Like Spark's: its text has to be asked for."""

    def __str__(self) -> str:
        return STREAM.format("", "")


def test_exceptions_are_explained_like_their_texts() -> None:
    assert explain(OfSpark()) == explain(STREAM.format("", ""))
    assert spark_azqueue.explain is explain


def test_our_own_errors_need_no_search() -> None:
    assert explain(QueueNotFound(SENTENCE)) == explain(STREAM.format("", ""))


def test_a_cause_is_looked_at_too() -> None:
    outer = RuntimeError("the job failed")
    outer.__cause__ = OfSpark()

    assert explain(outer).sentence == SENTENCE


class Gone(Exception):  # noqa: N818
    _desc = "spark_azqueue.errors.InvalidRow: [AZQUEUE_INVALID_ROW] row 3 cannot be sent"

    def __str__(self) -> str:
        raise ConnectionError("the JVM has ended")


def test_an_error_whose_text_cannot_be_had_any_more() -> None:
    assert explain(Gone()).error == "InvalidRow"


def test_an_error_that_leads_to_itself() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first

    assert explain(first).sentence == "a"


def test_an_error_of_which_nothing_is_known_says_so() -> None:
    explanation = explain(KeyError("some column"))

    assert explanation.error == "KeyError"
    assert "some column" in explanation.sentence
    assert "does not come from spark-azqueue" in explanation.remedy
    assert explain("").sentence == "no text"


@pytest.mark.parametrize(
    ("text", "name", "remedy"),
    [
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: azqueue.", "DATA_SOURCE", "PYSP"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find", "DATA_SOURCE", "= sys.executable"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find", "DATA_SOURCE", "PYSPARK_DRIVER_PYTHON"),
        (
            "RuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.11"
            " than that in driver: 3.12\n[DATA_SOURCE_NOT_FOUND] Failed to find",
            "PYTHON_VERSION_MISMATCH",
            "= sys.executable",
        ),
        (
            ": org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find"
            " the data source: azqueue.\n\tat org.apache.spark.sql.classic.DataFrameWriter.save(…)",
            "DATA_SOURCE_NOT_FOUND on a write",
            "createDataFrame([], 'a INT') in that thread",
        ),
        (
            "[DATA_SOURCE_NOT_FOUND] …\n\tat org.apache.spark.sql.classic.DataStreamWriter.start(",
            "DATA_SOURCE_NOT_FOUND on a write",
            "= sys.executable",
        ),
        ("ModuleNotFoundError: No module named 'spark_azqueue'", "ModuleNotFound", "executors"),
        ("org.apache.spark.SparkException: Python worker failed to connect back.", "Python", "mem"),
        ("[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source", "write mode", ".mode('append')"),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            "JAVA_GATEWAY_EXITED",
            "Java 17 or newer",
        ),
        (
            "Error: java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been"
            " compiled by a more recent version of the Java Runtime",
            "JAVA_GATEWAY_EXITED",
            "JAVA_HOME",
        ),
        ("Caused by: java.io.EOFException", "EOFException", "nothing is lost"),
        ("checkpointLocation must be specified either", "checkpointLocation", ".option("),
    ],
)
def test_errors_of_spark_that_users_meet(text: str, name: str, remedy: str) -> None:
    explanation = explain(f"first line\n{text}\nlast line")

    assert explanation.error.startswith(name)
    assert remedy in explanation.remedy


@pytest.mark.parametrize("kind", CLASSES.values())
def test_every_class_of_error_has_advice(kind: type[AzQueueError]) -> None:
    explanation = explain(f"spark_azqueue.errors.{kind.__name__}: {kind('something else')}")

    assert explanation.error == kind.__name__
    assert explanation.condition == kind.condition.id
    assert explanation.remedy == kind.condition.remedy
    assert explanation.sentence == "something else"


def test_a_long_log_is_explained_in_linear_time() -> None:
    """A megabyte that nearly fits each pattern; with a quadratic one this would not end."""
    for line in ("[DATA_SOURCE_NOT_FOUND] x\n", "classic.DataFrameWriter.x\n"):
        assert explain(line * 40_000).error.startswith(("DATA_SOURCE_NOT_FOUND", "text"))


def test_the_id_alone_is_enough() -> None:
    explanation = explain("WARN it failed: [AZQUEUE_NOT_DRAINED] messages may be hidden\nmore")

    assert (explanation.error, explanation.sentence) == (
        "AZQUEUE_NOT_DRAINED",
        "messages may be hidden",
    )
    assert explain("[AZQUEUE_OF_A_NEWER_RELEASE] text").condition == ""


@pytest.mark.parametrize("condition", Condition)
def test_the_page_has_every_condition_where_explain_leads(condition: Condition) -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")

    assert f'<a id="{condition.anchor}"></a>`{condition.id}`' in page
    assert explain(f"[{condition.id}] text").page == f"{page_address()}#{condition.anchor}"


def test_the_page_is_an_address_in_the_repository() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    assert f"{setup['metadata']['url']}/blob/main/docs/troubleshooting.md" == page_address()


@pytest.mark.parametrize(
    "text",
    [
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: azqueue.",
        "No module named 'pyspark.sql.datasource'",
    ],
)
def test_a_spark_without_data_sources_in_python_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="3.5.4"))
    found = explain(text)
    assert found.sentence == "This is Spark 3.5.4, which does not support Python data sources."
    assert "4.0 or newer" in found.remedy
