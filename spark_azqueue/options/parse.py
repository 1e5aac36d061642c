"""Parses options as Spark passes them, with the table's parsers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from spark_azqueue.errors import InvalidOption
from spark_azqueue.service.redaction import looks_like_connection_string, shown

from .choices import Side
from .foreign import instead_of
from .option import Option
from .table import OPTIONS

# Spark passes some of its own options on to sources and sinks; they are ignored here.
_SPARKS_OWN = frozenset(
    {"checkpointlocation", "queryname", "outputmode", "triggerinterval", "partitionoverwritemode"}
    # Properties of a table: CREATE TABLE … USING azqueue.
    | {"provider", "owner", "comment", "external", "is_managed_location", "collation"}
)


_TABLES_COPY = "option."  # Spark passes each option of a table a second time, with this prefix


def parse(given: Mapping[str, str], side: Side) -> dict[str, Any]:
    """Parse options as Spark passes them. Returns values or defaults by canonical name.

    Raises InvalidOption for an unknown name (the text suggests the nearest known one), an option of
    the other side, or a bad value (the text says what is allowed, and never shows a secret).
    """
    known = {option.name.lower(): option for option in OPTIONS}
    values = {option.name: option.default for option in OPTIONS}
    for key, value in given.items():
        lower = key.lower()
        if lower in _SPARKS_OWN or lower.startswith(_TABLES_COPY) or value is None:
            continue
        option = known.get(lower)
        if option is None:
            raise InvalidOption(_unknown(lower, side))
        if not option.side & side:
            other = "source" if side is Side.SINK else "sink"
            here = "sink" if side is Side.SINK else "source"
            raise InvalidOption(
                f"option '{option.name}' is for the {other}, not for the {here}; remove it"
            )
        try:
            values[option.name] = option.parse(str(value))
        except ValueError as error:
            raise InvalidOption(
                f"option '{option.name}': {_told(str(value), option)} is not allowed; expected"
                f" {error}"
            ) from None
    return values


def fields(values: Mapping[str, Any], side: Side) -> dict[str, Any]:
    """The values that a config takes unchanged, by the name of the config's field."""
    rows = (option for option in OPTIONS if option.field and option.side & side)
    return {option.field: values[option.name] for option in rows}


def named(given: Mapping[str, str]) -> frozenset[str]:
    """Canonical names of the options that were set, with any value."""
    lower = {key.lower() for key, value in given.items() if value is not None}
    return frozenset(option.name for option in OPTIONS if option.name.lower() in lower)


def _told(value: str, option: Option) -> str:
    """A value that is not allowed, without what may be a secret in it."""
    if option.secret:
        return "its value (not shown)"
    if looks_like_connection_string(value):
        return (
            "its value (not shown) looks like a connection string, which the option"
            " 'secret.connectionString' takes; it"
        )
    return shown(repr(value))


def value_of(given: Mapping[str, str], name: str) -> str:
    """What is given for this option, as it is written; "" if it is not set."""
    found = (value for key, value in given.items() if key.lower() == name.lower())
    return str(next(found, None) or "")


def _unknown(lower: str, side: Side) -> str:
    if lower == "path":
        return "azqueue takes no path; name the queue with option 'queue'"
    if instead := instead_of(lower):
        return f"unknown option '{lower}': {instead}"
    names = [option.name for option in OPTIONS if option.side & side]
    begun = [name.lower() for name in names if name.lower().startswith(lower)]
    near = begun or difflib.get_close_matches(lower, [n.lower() for n in names], n=1, cutoff=0.7)
    hint = next((f"; did you mean '{n}'?" for n in names if near and n.lower() == near[0]), "")
    return f"unknown option '{shown(lower)}'{hint or '.'} Known options: {', '.join(names)}"
