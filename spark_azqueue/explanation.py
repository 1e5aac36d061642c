"""Finds our sentence in an error of Spark, and says what to do and where to read more.

    try:
        query.awaitTermination()
    except Exception as error:
        print(spark_azqueue.explain(error))

Only texts are looked at, so errors of Spark, of Spark Connect and of Py4J, and lines of a log, are
read alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .advice import advice_for, symptom_in
from .errors import AzQueueError

PAGE = "docs/troubleshooting.md"


@dataclass(frozen=True)
class Explanation:
    """What went wrong. `str` of it is what a person wants to read.

    error: the class of the error, such as "QueueNotFound"; for Spark's own errors, Spark's name.
    sentence: what happened. remedy: what to do. page: the part of the documentation about it.
    """

    error: str
    sentence: str
    remedy: str
    page: str

    def __str__(self) -> str:
        return f"{self.error}: {self.sentence}\nWhat to do: {self.remedy}\nMore: {self.page}"


def explain(error: BaseException | str) -> Explanation:
    """Explain an error that Spark raised for a query, a read or a write.

    error: the exception, or its text as a log has it. Never raises. An error of which nothing is
    known gets an explanation that says so.
    """
    for kind, sentence in _ours(error):
        advice = advice_for(kind, sentence)
        if advice:
            return Explanation(kind, sentence, advice.remedy, f"{PAGE}#{advice.section}")
    text = "\n".join(_texts(error))
    symptom = symptom_in(text)
    if symptom:
        page = f"{PAGE}#{symptom.section}"
        return Explanation(symptom.name, symptom.sentence, symptom.remedy, page)
    name = "text" if isinstance(error, str) else type(error).__name__
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no text")
    return Explanation(name, first, _UNKNOWN, PAGE)


_UNKNOWN = (
    "this error names nothing of spark-azqueue. Look for the last 'Caused by' in its text, and run"
    " the doctor: python -m spark_azqueue <queue>"
)

_OURS = re.compile(r"spark_azqueue\.errors\.([A-Z]\w*): ([^\n]*)")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w{5}\s*$")


def _ours(error: BaseException | str) -> Iterator[tuple[str, str]]:
    """Class and sentence of our errors in this one, the outermost first."""
    if not isinstance(error, str):
        for each in _chain(error):
            if isinstance(each, AzQueueError):
                yield type(each).__name__, str(each)
    for text in _texts(error):
        for found in _OURS.finditer(text):
            yield found[1], _SQL_STATE.sub("", found[2])


def _texts(error: BaseException | str) -> Iterator[str]:
    """What the error, and what led to it, says."""
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
