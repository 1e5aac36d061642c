"""What a text must be before Spark's readers of JSON see it: short, and not deeply nested.

Some of Spark's functions call themselves for each level, so a small text of many brackets would end
the process with a StackOverflowError.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

MOST_BYTES = 2**20
"""The longest body, as JSON: Event Grid's own limit for an event."""

MOST_EVENTS = 5_000
"""The most events in a body: Event Grid's own limit for what it sends at once."""

MOST_LEVELS = 64
"""How deeply brackets may be nested in a body, as in .NET's readers of JSON."""


def _nested(levels: int) -> str:
    """A pattern for texts in which brackets are balanced outside of strings, up to these levels.

    Every repetition is possessive. So Java reads a text once, without a stack that grows with it.
    """
    plain = r'[^\[\]{}"]++|"(?:[^"\\]++|\\.)*+"?+'
    found = f"(?:{plain})*+"
    for _ in range(levels):
        found = rf"(?:{plain}|[\[{{]{found}[\]}}])*+"
    return rf"(?s)\A{found}\z"


_BALANCED = _nested(MOST_LEVELS)


def bounded(text: Column) -> Column:
    """The text; null if its brackets are not balanced, or nested more deeply than MOST_LEVELS."""
    return F.when(text.rlike(_BALANCED), text)


def bounded_json(text: Column, longest: int = MOST_BYTES) -> Column:
    """The text if a reader of JSON may see it, else null: for `F.try_parse_json(bounded_json(…))`.

    Null if it is longer than `longest` bytes, if brackets outside of strings do not match, or if
    they are nested in more than 64 levels: some of Spark's functions call themselves for each
    level. Whether it is JSON is not checked.
    """
    return F.when(F.octet_length(text) <= longest, bounded(text))
