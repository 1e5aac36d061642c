"""What an error of Spark is, by the classes of its Java causes and the id of its condition.

Never by its text, which may quote a file or the name of one.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import AnalysisException, PySparkException

from spark_azqueue.explanation import without_sql_state
from spark_azqueue.service.redaction import shown

_DEEPEST = 50
_MISSING = frozenset({"java.io.FileNotFoundException", "java.nio.file.NoSuchFileException"})
_NETWORK = re.compile(
    r"java\.net\.(?!URISyntax).*|javax\.net\..*"
    r"|[\w.$]*(?:AbfsRest|Azure|Amazon|Sdk)\w*Exception"
)
_OF_A_FILE = re.compile(r"\[(?:FAILED_READ_FILE|MALFORMED_|CANNOT_|PATH_NOT_FOUND)")


def is_sparks(error: Exception) -> bool:
    """Whether Spark raised it, so that a file may be the cause."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def classes(error: Exception) -> list[str]:
    """The Java class of an error of Spark and of its causes, outermost first; empty if unknown."""
    return [str(each.getClass().getName()) for each in _chain(error)]


def condition(error: Exception) -> str | None:
    """The id of Spark's condition, such as PATH_NOT_FOUND; None if the error has none."""
    return error.getCondition() if isinstance(error, PySparkException) else None


def is_missing(error: Exception) -> bool:
    """Whether it may be that a file does not exist. A file that cannot be opened is the same."""
    return condition(error) == "PATH_NOT_FOUND" or not _MISSING.isdisjoint(classes(error))


def is_of_a_name(error: Exception) -> bool:
    """Whether Hadoop's paths cannot have the name, as with a colon in some file systems."""
    return "java.net.URISyntaxException" in classes(error)


def is_of_no_file(error: Exception) -> bool:
    """Whether Spark's driver refused a format, a schema or an option, before it read a file."""
    return isinstance(error, AnalysisException) and not is_missing(error)


def is_of_network(error: Exception) -> bool:
    """Whether a cause of it is the way to a storage, or the answer of one."""
    return any(map(_NETWORK.fullmatch, classes(error))) and not is_missing(error)


def said(error: Exception) -> str:
    """What Spark says of a file, and the first cause of it, in a line. For people alone."""
    texts = [str(each.getMessage() or "") for each in _chain(error)] or [str(error)]
    first = next((text for text in texts if _OF_A_FILE.match(text)), texts[0])
    told = _line(first, 300)
    return f"{told} Cause: {_line(texts[-1], 200)}" if texts[-1] != first else told


def _line(text: str, most: int) -> str:
    return shown(without_sql_state(text[:100_000].strip().partition("\n")[0]), most)


def _chain(error: Exception) -> list[Any]:
    found = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    chain: list[Any] = []
    while found is not None and len(chain) < _DEEPEST:
        chain.append(found)
        found = found.getCause()
    return chain
