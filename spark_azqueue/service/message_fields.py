"""Types for declaring the fields of a message.

The parser of the service's answers, the columns and rows of the source, and the logs all use these
declarations.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, get_type_hints


class Form(Enum):
    """Type of a field's values.

    The type decides how the field is parsed in answers, and how its column is made and stored.
    """

    QUEUE = auto()
    ID = auto()
    RECEIPT = auto()
    TEXT = auto()
    TIME = auto()
    """Microseconds since 1970, or UNKNOWN_TIME if the time in the answer is not readable."""
    MAYBE_TIME = auto()
    """Microseconds since 1970; None if there is no time."""
    COUNT = auto()
    FLAG = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """Declaration of a field: `dequeue_count: Annotated[int, Field(Form.COUNT, "DequeueCount")]`.

    element: XML element in the service's answers, or "" if there is none. column: column of the
    source; "" means the name of the field, None means no column. since: first version of the log's
    columns that has the field. If this version is above 1, the field needs a default, because older
    logs lack the field. `declared_in` sets the other attributes. default: None if the field has no
    default.
    """

    form: Form
    element: str = ""
    column: str | None = ""
    since: int = 1
    name: str = ""
    has_default: bool = False
    default: Any = None


def declared_in(*kinds: type[Any]) -> tuple[Field, ...]:
    """Return the declared fields of these classes, in order of declaration."""
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
