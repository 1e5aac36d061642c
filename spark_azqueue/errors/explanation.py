"""Finds this package's error in an error of Spark, and explains it, with links to the docs.

    try:
        query.awaitTermination()
    except Exception as error:
        print(spark_azqueue.explain(error))

The package's errors are found by the ids of their conditions. Only the text of an error is
searched. So errors of Spark, Spark Connect and Py4J, and lines of a log, are handled in the same
way.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from . import AzQueueError
from .conditions import Condition
from .raised import first_line_in, raised_in, without_sql_state


@functools.cache
def page_address() -> str:
    """Return the address of the page that explains all errors; only its name if pip has not
    installed the package.
    """
    from importlib.metadata import metadata  # imported here, because tasks also import this module

    name = "docs/troubleshooting.md"
    try:
        home = metadata("spark-azqueue")["Home-page"]
    except Exception:  # noqa: BLE001 (whatever is wrong with the installation: `explain` never raises)
        return name
    return f"{home}/blob/main/{name}" if home else name


@dataclass(frozen=True)
class Explanation:
    """Explanation of an error. `str(explanation)` is the text for people.

    error: class of the error, such as "QueueNotFound", or Spark's name for Spark's own error.
    sentence: what happened. remedy: what to do. page: the section of the documentation about the
    error. condition: id of the error's condition, or "" for Spark's own errors.
    """

    error: str
    sentence: str
    remedy: str
    page: str
    condition: str = ""

    def __str__(self) -> str:
        return f"{self.error}: {self.sentence}\nWhat to do: {self.remedy}\nMore: {self.page}"


def explain(error: BaseException | str) -> Explanation:
    """Explain an error that Spark raised for a query, a read or a write.

    error: the exception, or its text from a log. Never raises. If the error is unknown, the
    explanation says so.
    """
    for kind, condition, sentence in _ours(error):
        page = f"{page_address()}#{condition.anchor}"
        return Explanation(kind, sentence, condition.remedy, page, condition.id)
    text = "\n".join(_texts(error))
    if old := _old_spark(text):
        return old
    for symptom in SYMPTOMS:
        if re.search(symptom.pattern, text):
            page = f"{page_address()}#{_SPARKS}"
            return Explanation(symptom.name, symptom.sentence, symptom.remedy, page)
    if raised := raised_in(text):
        return Explanation(raised.name, raised.sentence, _USERS, f"{page_address()}#{_SPARKS}")
    name = "text" if isinstance(error, str) else type(error).__name__
    return Explanation(name, first_line_in(text), _UNKNOWN, page_address())


def _old_spark(text: str) -> Explanation | None:
    """Return an explanation if the text is the error of a Spark that is too old for Python data
    sources.
    """
    version = str(getattr(sys.modules.get("pyspark"), "__version__", ""))
    is_old = version.partition(".")[0].isdigit() and int(version.partition(".")[0]) < 4
    if not is_old or not re.search(r"DATA_SOURCE_NOT_FOUND|pyspark\.sql\.datasource", text):
        return None
    return Explanation(
        "Spark before 4.0",
        f"This is Spark {version}, which does not support Python data sources.",
        "use Spark 4.0 or newer: a runtime with it, or pip install 'pyspark[sql]>=4.0'",
        f"{page_address()}#{_SPARKS}",
    )


_UNKNOWN = (
    "this error does not come from spark-azqueue. Find the last 'Caused by' in its text, or run"
    " the doctor: python -m spark_azqueue <queue>"
)

_USERS = (
    "correct that line, or the row or message that it cannot handle; its batch comes again. With"
    " maxDequeueCount (off with a log unless set) the source dead-letters a message that fails it"
)

_OURS = re.compile(r"(?:spark_azqueue\.errors\.(\w+): )?\[AZQUEUE_(\w+)\] ([^\n]*)")


def _ours(error: BaseException | str) -> Iterator[tuple[str, Condition, str]]:
    """Yield class, condition and sentence of each error of this package that `error` contains,
    outermost first.
    """
    if not isinstance(error, str):
        for each in _chain(error):
            if isinstance(each, AzQueueError):
                yield type(each).__name__, each.condition, each.sentence
    for text in _texts(error):
        for kind, name, sentence in _OURS.findall(text):
            if condition := Condition.__members__.get(name):
                yield kind or condition.id, condition, without_sql_state(sentence)


def _texts(error: BaseException | str) -> Iterator[str]:
    """Yield the text of the error, and the texts of its causes."""
    if isinstance(error, str):
        yield error
        return
    for each in _chain(error):
        try:
            yield str(each)
        except Exception:  # noqa: BLE001 (Spark's errors ask the JVM, which may have ended)
            yield str(getattr(each, "_desc", "") or type(each).__name__)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


class Symptom(NamedTuple):
    """An error of Spark: its name, a pattern for its text, its meaning and its remedy."""

    name: str
    pattern: str
    sentence: str
    remedy: str


_SPARKS = "errors-of-spark"
"""Heading in docs/troubleshooting.md under which these errors are explained."""

_SAME_PYTHON = (
    "before the session is created, set os.environ['PYSPARK_PYTHON'] = sys.executable (by"
    " default it is the python3 on the path; PYSPARK_DRIVER_PYTHON takes precedence), and"
    " install spark-azqueue in that Python"
)

SYMPTOMS = (
    Symptom(
        "JAVA_GATEWAY_EXITED",
        r"JAVA_GATEWAY_EXITED|Java gateway process exited|UnsupportedClassVersionError"
        r"|Unable to locate a Java Runtime|JAVA_HOME is not set",
        "Spark's Java did not start.",
        "get Java 17 or newer (java -version), or set JAVA_HOME to one; the doctor says which"
        " Java it finds (python -m spark_azqueue). The lines above the error name other causes:"
        " an invalid Spark setting, a missing jar, too little memory",
    ),
    Symptom(
        "PYTHON_VERSION_MISMATCH",
        r"PYTHON_VERSION_MISMATCH|Python in worker has different version",
        "Spark's workers run another version of Python than the driver.",
        _SAME_PYTHON,
    ),
    Symptom(
        "DATA_SOURCE_NOT_FOUND on a write",
        r"\A(?=[\s\S]*?classic\.Data(?:Frame|Stream)Writer\.)[\s\S]*?DATA_SOURCE_NOT_FOUND",
        "Spark finds no format of this name. A thread that did not create the session finds no"
        " Python sink.",
        "in a thread of your own (a pool, also in foreachBatch), call spark.createDataFrame([], 'a"
        " INT') in that thread first: it makes the session active there. Else: " + _SAME_PYTHON,
    ),
    Symptom(
        "DATA_SOURCE_NOT_FOUND",
        r"DATA_SOURCE_NOT_FOUND|Failed to find the data source: azqueue",
        "Spark finds no format of this name.",
        f"{_SAME_PYTHON}. Spark looks there, once for each session. The doctor says which one it is"
        " (python -m spark_azqueue). Or call"
        " spark.dataSource.register(spark_azqueue.AzQueueDataSource)",
    ),
    Symptom(
        "ModuleNotFoundError",
        r"No module named '?(spark_azqueue|pyspark_azqueue)",
        "The package is missing in a process of Spark.",
        "install it on the executors, too; --py-files and addArtifact do not reach every process",
    ),
    Symptom(
        "Python worker",
        r"worker failed to connect back|worker exited unexpectedly",
        "A Python worker crashed, or did not start in time.",
        "check PYSPARK_PYTHON, the memory beside the JVM, and whether the machine is overloaded"
        " (too many queries that start at once); rename a file in the working folder that has"
        " the name of a Python module (queue.py, secrets.py)",
    ),
    Symptom(
        "EOFException",
        r"java\.io\.EOFException",
        "A Python process was killed, usually because memory ran out.",
        "lower maxBytesPerTrigger or maxMessagesPerTrigger, or give the driver's machine more"
        " memory; then restart the query: nothing is lost",
    ),
    Symptom(
        "write mode",
        r"UNSUPPORTED_DATA_SOURCE_SAVE_MODE|ErrorIfExists",
        "df.write alone means 'fail if it exists', which a queue does not have.",
        "add .mode('append'); 'overwrite', which Spark suggests, too, is refused: a queue cannot be"
        " overwritten",
    ),
    Symptom(
        "continuous",
        r"does not support continuous processing|STREAMING_REAL_TIME_MODE"
        r"|Unknown type of trigger: (?:Continuous|RealTime)",
        "The query has a continuous or a real-time trigger, and reads a queue in batches.",
        "use .trigger(processingTime='0 seconds'), or no trigger: a batch begins as soon as the"
        " previous one is done",
    ),
    Symptom(
        "checkpointLocation",
        r"checkpointLocation must be specified",
        "The query has no folder for its checkpoint.",
        "set .option('checkpointLocation', …): a folder that only this query uses, and that"
        " outlives it",
    ),
)
