"""Settings of a source that are allowed, and probably not what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .choices import QueuePriority
from .option import Parsed
from .selection import is_pattern

_LONGEST_S: Mapping[str, tuple[int, str]] = {
    "visibilityTimeout": (3600, "After a crash messages stay hidden for so long"),
    "maxPollInterval": (60, "A message that comes into an empty queue waits for so long"),
    "maxTriggerDelay": (3600, "A message may wait for others for so long"),
}
"""Durations that may be meant in milliseconds: a number alone above so many seconds, and what it
does."""


def doubts_of(values: Parsed) -> Iterator[str]:
    """What to warn of at the start: a sentence for each, with what to write instead."""
    for name, (longest_s, effect) in _LONGEST_S.items():
        text = values.written.get(name, "").strip()
        if not re.fullmatch(r"\d{1,7}", text) or int(text) <= longest_s:
            continue
        size, unit = (3600, "hours") if int(text) >= 3600 else (60, "minutes")
        yield (
            f"option '{name}' is {text}, and a number alone is in seconds:"
            f" {int(text) / size:.1f} {unit}. {effect}. Write the unit, as in '30 seconds', or"
            f" '{text} seconds' if that is meant"
        )
    first, *others = values["queue"]
    is_strict = values["queuePriority"] is QueuePriority.STRICT
    if is_strict and not others and not is_pattern(first):
        yield (
            f"queuePriority=strict has no effect with one queue ('{first}'): name the others in"
            " 'queue', behind it, or remove the option"
        )
