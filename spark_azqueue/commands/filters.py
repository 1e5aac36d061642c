"""Selects messages for a command by a part of the body, a value in its JSON, or a reason.

A JSON path has only names and indexes: `$.customer.id`, `items[0]['unit price']`. So the time to
parse a path grows only linearly with its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.service.encoding import BodyType, Encoding, decode
from spark_azqueue.service.envelopes import DeadLetterEnvelope, envelope_of, stored_text

Step: TypeAlias = str | int

_LONGEST_PATH = 500
_MOST_STEPS = 20
_STEP = re.compile(r"\.([^\W\d][\w-]*)|\[(\d{1,6})\]|\['([^'\\]*)'\]")
_NUMBER = re.compile(r"-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,9})?", re.ASCII)
"""Pattern for a number in JSON. Python's `int` would also accept 4_2 for 42."""

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a message, as commands show it. envelope: the envelope that contained the body,
    or None.
    """

    text: str
    envelope: DeadLetterEnvelope | None = None

    @property
    def reason(self) -> str:
        """The reason in the envelope; "" without a reason."""
        return self.envelope.reason if self.envelope else ""


def body_of(text: str, encoding: Encoding) -> Body:
    """Return the body in a stored text, decoded and taken out of its envelope.

    encoding: `messageEncoding`. If the text does not decode, it is returned as stored. Never
    raises.
    """
    envelope = envelope_in(text, encoding)
    if envelope is None:
        return Body(_decoded(text, encoding))
    try:
        inner = stored_text(envelope, encoding)
    except ValueError:
        inner = envelope.body
    return Body(_decoded(inner, encoding), envelope)


def envelope_in(text: str, encoding: Encoding) -> DeadLetterEnvelope | None:
    """Return the envelope in a stored text, which may be encoded; None if the text is not an
    envelope.
    """
    return envelope_of(text) or envelope_of(_decoded(text, encoding))


def _decoded(text: str, encoding: Encoding) -> str:
    try:
        return str(decode(text, encoding, BodyType.STRING))
    except UndecodableBody:
        return text


@dataclass(frozen=True, slots=True)
class AtPath:
    """Condition: the body's JSON has `value` at this path. If `value` is None, any value does."""

    path: tuple[Step, ...]
    value: str | None = None

    def matches(self, document: Any) -> bool:
        """Return True if the condition holds. document: parsed JSON."""
        for step in self.path:
            document = _below(document, step)
            if document is _NOTHING:
                return False
        return self.value is None or _is(document, self.value)


def _none(text: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that must all hold. contains: texts that the body must contain. reasons: texts
    that the reason must contain.

    whole: if True, a packed message matches only if all its rows match. (Otherwise `purge` would
    delete rows that do not match.) rows_of: returns the rows in a stored text as JSON; no rows if
    the text is not a pack; None if the pack cannot be opened.
    """

    contains: Sequence[str] = ()
    at_paths: Sequence[AtPath] = ()
    reasons: Sequence[str] = ()
    encoding: Encoding = Encoding.NONE
    whole: bool = False
    rows_of: Callable[[str], Sequence[str] | None] = _none

    def __bool__(self) -> bool:
        return bool(self.contains or self.at_paths or self.reasons)

    def matches(self, text: str) -> bool:
        """Return True if a message with this stored text matches. Never raises."""
        return bool(self.found_in(text))

    def found_in(self, text: str) -> bool | None:
        """Return True if a message with this stored text matches. A pack matches if one of its rows
        matches.

        Returns None if the pack cannot be opened, or if `whole` is True and only some rows match.
        Never raises.
        """
        if not self:
            return True
        body = body_of(text, self.encoding)
        if not all(part in body.reason for part in self.reasons):
            return False
        if self._fits(body.text):
            return True
        rows = self.rows_of(body.envelope.body if body.envelope else text)
        if rows is None:
            return None
        if not any(map(self._fits, rows)):
            return False
        return True if not self.whole or all(map(self._fits, rows)) else None

    def _fits(self, text: str) -> bool:
        """Return True if this body, or this row as JSON, contains all texts and has all values at
        their paths.
        """
        if not all(part in text for part in self.contains):
            return False
        if not self.at_paths:
            return True
        try:
            document = json.loads(text, parse_float=_with_all_digits)
        except (ValueError, RecursionError):
            return False
        return all(each.matches(document) for each in self.at_paths)


def at_path(written: str) -> AtPath:
    """Parse `PATH` or `PATH=VALUE`. Raises ValueError with the allowed forms."""
    rest = written[1:] if written.startswith("$") else written
    if rest[:1] not in (".", "[") and not written.startswith("$"):
        rest = f".{rest}"
    steps: list[Step] = []
    while rest and rest[0] != "=":
        found = _STEP.match(rest)
        if not found or len(steps) == _MOST_STEPS or len(written) > _LONGEST_PATH:
            raise ValueError(
                "a path of names and indexes, such as $.customer.id or items[0]['unit price'], and"
                f" then perhaps =VALUE; {_MOST_STEPS} steps and {_LONGEST_PATH} characters at most"
            )
        name, index, quoted = found.groups()
        steps.append(int(index) if index else name if name is not None else quoted)
        rest = rest[found.end() :]
    return AtPath(tuple(steps), rest[1:] if rest else None)


def _below(document: Any, step: Step) -> Any:
    if isinstance(step, int):
        is_there = isinstance(document, list) and step < len(document)
    else:
        is_there = isinstance(document, dict) and step in document
    return document[step] if is_there else _NOTHING


def _with_all_digits(number: str) -> Decimal | float:
    try:
        return Decimal(number)
    except ArithmeticError:  # the exponent is too long for a number
        return float(number)


def _is(found: Any, value: str) -> bool:
    """Return True if a JSON value equals the value that was written on the command line."""
    if isinstance(found, str):
        return found == value
    if found is None or isinstance(found, bool):
        return json.dumps(found) == value
    if isinstance(found, (int, Decimal)) and _NUMBER.fullmatch(value):
        return found == Decimal(value)
    return False
