"""The options that make rows of messages, as headers and decisions have them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spark_azqueue.journal.codec import Coded, Damaged, object_of, text

_READING_AT_MOST = 20
_OPTION = re.compile(r"[!-~ ]{0,100}")


def _reading(found: Mapping[str, Any], name: str) -> Mapping[str, str]:
    options = object_of(found.get(name), "options")
    if len(options) > _READING_AT_MOST:
        raise Damaged("it names too many options")
    if not all(_OPTION.fullmatch(name) for name in options):
        raise Damaged("the name of one of its options is not valid")
    return {name: text(options, name) for name in options}


READING = Coded(_reading, dict)
"""By name; few, each a word."""
