"""The options that turn messages into rows, in the form that headers and plans store. Pure
values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from spark_azqueue.journal.codec import Coded, Damaged, object_of, text
from spark_azqueue.options.choices import LargeBody, OnUndecodable
from spark_azqueue.service.encoding import BodyType, Encoding

_THEN = "use the release that wrote it, or a newer one"

_CHOICES: Mapping[str, type[Enum]] = {
    "messageEncoding": Encoding,
    "bodyType": BodyType,
    "onUndecodable": OnUndecodable,
    "largeBody": LargeBody,
}
_OTHERS = {"blobContainer", "deleteAfter"}


def _reading(found: Mapping[str, Any], name: str) -> Mapping[str, str]:
    """Read the options. Raises Damaged for an unknown option, because it may change how bodies are
    decoded."""
    options = object_of(found.get(name), "options")
    for option in options:
        value, kind = text(options, option), _CHOICES.get(option)
        if kind is None and option not in _OTHERS:
            raise Damaged(f"one of its options is not known: {_THEN}")
        if kind and not any(each.value == value for each in kind):
            raise Damaged(f"its {option} is not known: {_THEN}")
    return {option: text(options, option) for option in options}


READING = Coded(_reading, dict)
"""Options by name."""
