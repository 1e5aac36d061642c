"""Checks of arguments, shared by the functions on DataFrames."""

from __future__ import annotations

from spark_azqueue.errors import InvalidOption


def check_number(call: str, name: str, value: object, also: str = "") -> None:
    """Raise InvalidOption unless the value is a whole number above 0. also: other valid values."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidOption(f"{call}({name}={value!r}): give a whole number above 0{also}")
