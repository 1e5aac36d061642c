"""How a field of a message is declared: once, where its class has it.

The reader of the service's answers, the columns and rows of the source and the logs go by these
declarations.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, get_type_hints


class Form(Enum):
    """What values a field has: by it answers are read, and columns made and stored."""

    QUEUE = auto()
    ID = auto()
    RECEIPT = auto()
    TEXT = auto()
    TIME = auto()
    """Microseconds since 1970, UNKNOWN_TIME if the answer's could not be read."""
    MAYBE_TIME = auto()
    """Microseconds since 1970, None if there is none."""
    COUNT = auto()
    FLAG = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """Marks a field: `dequeue_count: Annotated[int, Field(Form.COUNT, "DequeueCount")]`.

    element: of the service's answers, "" for none. column: of the source, "" for the name of the
    field, None for none. since: the first version of the columns of logs that has it; one of a
    later version needs a default, for what was logged before.
    The others are filled in by `declared_in`. default: None if it has none.
    """

    form: Form
    element: str = ""
    column: str | None = ""
    since: int = 1
    name: str = ""
    has_default: bool = False
    default: Any = None


def declared_in(*kinds: type[Any]) -> tuple[Field, ...]:
    """The fields that are marked in these classes, in their order."""
    return tuple(each for kind in kinds for each in _marked(kind))


def _marked(kind: type[Any]) -> Iterable[Field]:
    parameters = inspect.signature(kind).parameters
    for name, hint in get_type_hints(kind, include_extras=True).items():
        default = parameters[name].default
        has_default = default is not inspect.Parameter.empty
        for mark in getattr(hint, "__metadata__", ()):
            yield replace(
                mark,
                name=name,
                column=name if mark.column == "" else mark.column,
                has_default=has_default,
                default=default if has_default else None,
            )
