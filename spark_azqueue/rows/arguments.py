"""Checks of arguments that the functions on DataFrames share."""

from __future__ import annotations

from spark_azqueue.errors import InvalidOption


def check_number(call: str, name: str, value: object, also: str = "") -> None:
    """Raise InvalidOption for what is no whole number above 0. also: what else is allowed."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidOption(f"{call}({name}={value!r}): give a whole number above 0{also}")
