"""One option, as the tables declare it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .choices import Side


@dataclass(frozen=True)
class Option:
    """One row of the table. `default`: a parsed value. `shown`: the default in the reference.

    field: the field of the config that takes the value unchanged. Without one, the code that builds
    the config uses the value (see `source_config` and `sink_config`).
    """

    name: str
    parse: Callable[[str], Any]
    side: Side
    doc: str
    field: str = ""
    default: Any = None
    shown: str = ""
    secret: bool = False
