"""Values that are allowed, and probably not what was meant."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .parse import value_of

_LONG_S = 3600


def doubts(given: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences about such values among the options of a source. They are for a warning."""
    written = value_of(given, "visibilityTimeout").strip()
    if not re.fullmatch(r"\d{1,7}", written) or int(written) <= _LONG_S:
        return ()
    return (
        f"option 'visibilityTimeout' is {written}, and a number alone is in seconds:"
        f" {int(written) / 3600:.1f} hours. After a crash messages stay hidden for so long. Write"
        f" the unit, as in '30 seconds', or '{written} seconds' if that is meant",
    )
