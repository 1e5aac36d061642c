"""Finds the exception that a query's code raised in the text of Spark's error.

Spark wraps exceptions. An error of a task is wrapped in a PythonException. An error of the JVM is
wrapped in a Py4JJavaError, which has only the name of a call. Both wrappers are in the text of the
error that ends the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BEGINS = "Traceback (most recent call last):"
_ENDS = re.compile(r"(\w[\w.]*)(?:: (.*))?")
_FRAME = re.compile(r' +File "([^"]+)", line (\d+), in (\S+)')
_WRAPPERS = ("Py4JJavaError", "PythonException")
_OF_JVM = re.compile(r"(?::|Caused by:) ([\w.$]+): (.*)")
_STREAM_FAILED = re.compile(r"\[STREAM_FAILED\] Query \[[^\]\n]*\] terminated with exception: ")
_OF_SPARK = ("/pyspark/", "/py4j/")


class Raised(NamedTuple):
    """An exception: its class, its first line, and the place in the user's code at which it was
    raised."""

    name: str
    said: str
    place: str

    @property
    def sentence(self) -> str:
        """The line and the place, for an explanation."""
        return f"{self.said} ({self.place})"


def raised_in(text: str) -> Raised | None:
    """Return the exception that a Python function of the query raised; None if the text has no
    traceback.

    If every traceback ends with a wrapper, returns the error of the JVM in the last wrapper.
    """
    wrapper = None
    lines = text.splitlines()
    for raised, behind in _tracebacks(lines):
        if raised.name.rpartition(".")[2] not in _WRAPPERS:
            return raised
        wrapper = raised, behind  # if the wrapped error has a traceback of its own, it follows
    if wrapper is None:
        return None
    raised, behind = wrapper
    of_jvm = [found.groups() for line in lines[behind:] if (found := _OF_JVM.fullmatch(line))]
    if not of_jvm:
        return raised
    (name, said), (root, cause) = of_jvm[0], of_jvm[-1]
    said = without_sql_state(said).rstrip(".")
    because = "" if cause.strip() in said else f". Caused by {root}: {cause.strip()}"
    return Raised(name, f"{said}{because}", raised.place)


def _tracebacks(lines: list[str]) -> Iterator[tuple[Raised, int]]:
    """Yield the exception of each traceback, and the number of the line after the traceback."""
    frame = None
    for number, line in enumerate(lines, 1):
        if line.endswith(_BEGINS):
            frame = None
        elif line.startswith((" ", "\t")):
            found = _FRAME.match(line)
            if found and (frame is None or _is_theirs(found) or not _is_theirs(frame)):
                frame = found
        else:
            if frame and (ends := _ENDS.fullmatch(line)):
                said = without_sql_state((ends[2] or "").strip()) or "without a text"
                file, of_file, function = frame.groups()
                yield Raised(ends[1], said, f"raised in {function}, {file}, line {of_file}"), number
            frame = None


def _is_theirs(frame: re.Match[str]) -> bool:
    return not any(part in frame[1] for part in _OF_SPARK)


def first_line_in(text: str) -> str:
    """Return the first line that is not empty, without the words that Spark adds to the error of a
    failed query.
    """
    lines = _STREAM_FAILED.sub("", text, count=1).splitlines()
    first = next((line.strip() for line in lines if line.strip()), "no text")
    return without_sql_state(first)


def without_sql_state(line: str) -> str:
    """Return a line without the SQLSTATE at its end. Takes linear time, because lines may be
    long.
    """
    kept = line.rstrip()
    while (at := kept.rfind(" SQLSTATE: ")) >= 0 and len(kept) - at == len(" SQLSTATE: 12345"):
        kept = kept[:at].rstrip()
    return kept
