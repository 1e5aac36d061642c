"""Parsers of the texts of options. A parser raises ValueError with the rules."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple, TypeVar

from spark_azqueue.service.messages import NEVER_EXPIRES, queue_name

from .selection import is_pattern

_DURATION_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS_S = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hr": 3600,
    "hour": 3600,
    "d": 86_400,
    "day": 86_400,
    "week": 604_800,
}
_PATTERN = re.compile(r"[a-z0-9*?-]{1,63}\Z")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST_YEAR = 1971  # one day, so that the time is not before 1970 in any zone
_MOST_BATCHES = 10**12 - 1
_BYTES = re.compile(r"(\d+)\s*([kmg]?)i?b?\Z", re.IGNORECASE)

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)


def text(value: str) -> str:
    """Parse a text that is not blank. Return the text without outer spaces."""
    if not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def flag(value: str) -> bool:
    """Parse `true` or `false`, in any case."""
    found = {"true": True, "false": False}.get(value.strip().lower())
    if found is None:
        raise ValueError("true or false")
    return found


def one_of(kind: type[E]) -> Callable[[str], E]:
    """Return a parser that finds a member of an enum by its value, ignoring case."""

    def parse(value: str) -> E:
        for member in kind:
            if member.value.lower() == value.strip().lower():
                return member
        raise ValueError("one of " + ", ".join(member.value for member in kind))

    return parse


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """Return a parser of a whole number from `low` to `high`, both included."""

    def parse(value: str) -> int:
        allowed = f"a whole number from {low:,} to {high:,}"
        if not re.fullmatch(r"\s*\d+\s*", value) or not low <= int(value) <= high:
            raise ValueError(allowed)
        return int(value)

    return parse


def or_auto(parse: Callable[[str], T], *words: str) -> Callable[[str], T | None]:
    """Return a parser like `parse` that also accepts these words (by default `auto`), and returns
    None for them.
    """
    words = words or ("auto",)

    def parse_or_none(value: str) -> T | None:
        if value.strip().lower() in words:
            return None
        try:
            return parse(value)
        except ValueError as error:
            raise ValueError(f"{words[0]}, or {error}") from None

    return parse_or_none


def seconds(value: str) -> float:
    """Parse a duration to seconds: a number of seconds ("90"), or a text ("5 minutes", "1 hour 30
    minutes")."""
    allowed = 'a duration such as "90" (seconds), "5 minutes" or "1 hour 30 minutes"'
    rest = re.sub(r"^\s*interval\s+", "", value, flags=re.IGNORECASE).strip()
    total, at = 0.0, 0
    while at < len(rest):
        part = _DURATION_PART.match(rest, at)
        if not part:
            raise ValueError(allowed)
        unit = part[2].lower()
        scale = _UNITS_S.get(unit) or _UNITS_S.get(unit.removesuffix("s"))
        if unit == "" and part.end() == len(rest) and at == 0:
            scale = 1
        if scale is None:
            raise ValueError(allowed)
        total += float(part[1]) * scale
        at = part.end()
    if not rest:
        raise ValueError(allowed)
    return total


def duration(low: float, high: float, *, whole: bool = False) -> Callable[[str], Any]:
    """Return a parser of a duration from `low` to `high`, in seconds.

    whole: True to accept only whole seconds.
    """

    def parse(value: str) -> float:
        found = seconds(value)
        if not low <= found <= high or (whole and found != int(found)):
            kind = "whole seconds" if whole else "a duration"
            raise ValueError(f"{kind} from {in_words(low)} to {in_words(high)}")
        return int(found) if whole else found

    return parse


class Retention(NamedTuple):
    """How much of a log is kept: a number of batches before the newest committed batch, or a
    time."""

    batches: int = 100
    seconds: int | None = None

    def __str__(self) -> str:  # as in the option
        return str(self.batches) if self.seconds is None else in_words(self.seconds)


def retention(value: str) -> Retention:
    """Parse a number of batches, or a time with its unit."""
    try:
        if value.strip().isdecimal():
            return Retention(whole_number(10, 100_000)(value))
        return Retention(seconds=duration(60, 366 * 86_400, whole=True)(value))
    except ValueError:
        raise ValueError(
            "a whole number of batches from 10 to 100,000, or a time from 1 minute to 366 days"
        ) from None


class Bound(NamedTuple):
    """First or last batch of a range: the number of a batch, or the time at which a batch was
    stored. If both are None, the range has no bound on this side.

    at: the time, in microseconds since 1970.
    """

    batch: int | None = None
    at: int | None = None


def bound(value: str) -> Bound:
    """Parse the number of a batch, or a point in time."""
    if value.strip().isdecimal():
        return Bound(whole_number(1, _MOST_BATCHES)(value))
    try:
        return Bound(at=instant(value))
    except ValueError as error:
        raise ValueError(f"the number of a batch, or {error}") from None


def in_words(duration_s: float) -> str:
    """Return a duration as text: 604800 -> "7 days"."""
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if duration_s >= size and duration_s % size == 0:
            count = int(duration_s // size)
            return f"{count} {name}" + ("s" if count != 1 else "")
    return f"{duration_s:g} seconds"


def instant(value: str) -> int:
    """Parse a date (midnight in UTC), or a time with a zone, to microseconds since 1970."""
    text = value.strip()
    try:
        found = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "Zz" else text)
        if _DATE.fullmatch(text):
            found = found.replace(tzinfo=timezone.utc)
        if found.tzinfo is not None and found.year >= _FIRST_YEAR:
            return (found - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        pass
    raise ValueError(
        'a time with its zone such as "2026-11-17T08:00:00Z" or "2026-11-17T09:00:00+01:00", or a'
        ' date such as "2026-11-17" (midnight in UTC)'
    )


def time_to_live(value: str) -> int:
    """Parse whole seconds, or -1, which means that a message never expires."""
    if value.strip() == str(NEVER_EXPIRES):
        return NEVER_EXPIRES
    try:
        return int(duration(1, 2**31 - 1, whole=True)(value))
    except ValueError:
        raise ValueError(
            "whole seconds from 1 up, or -1 for a message that never expires"
        ) from None


def byte_size(low: int, high: int) -> Callable[[str], int]:
    """Return a parser of a number of bytes from `low` to `high`: "1048576", "32m", "1g"."""

    def parse(value: str) -> int:
        match = _BYTES.match(value.strip())
        size = int(match[1]) * 1024 ** " kmg".index(match[2].lower() or " ") if match else -1
        if not low <= size <= high:
            raise ValueError(f'bytes from {low:,} to {high:,}, also written as "512k", "32m", "1g"')
        return size

    return parse


def queue_names(value: str) -> tuple[str, ...]:
    """Parse names of queues, and patterns of names, separated by commas, without duplicates."""
    parts = tuple(map(_name_or_pattern, value.split(",")))
    if len(set(parts)) != len(parts):
        raise ValueError("each queue once")
    return parts


def _name_or_pattern(part: str) -> str:
    if not is_pattern(part):
        return queue_name(part)
    if not _PATTERN.match(part.strip()):
        raise ValueError(
            "a pattern such as orders-*: up to 63 lower-case letters, digits and hyphens, with *"
            " for any characters and ? for one"
        )
    return part.strip()
