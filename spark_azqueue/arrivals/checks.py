"""What arguments of `read_new_files` have to be. Asks nothing of Spark or the service."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from spark_azqueue.journal import codec
from spark_azqueue.service.messages import queue_name
from spark_azqueue.service.redaction import shown

from .memory import LATE_S, MOST
from .rules import Rules, glob_pattern, is_hidden, is_inside

_WHOLE = ("max_files_per_trigger", "max_files_remembered")
_SECONDS = ("backfill_interval", "max_file_age")
_FLAGS = ("include_existing_files", "allow_overwrites", "available_now")
_NEEDED = ("format", "checkpoint")
_TEXTS = ("log", "path_glob_filter", "set_aside_queue", "processing_time", "query_name")
_MAPPINGS = ("options", "reader_options", "paths")

_CHOOSE_FILES = {
    "pathglobfilter": "use path_glob_filter",
    "modifiedbefore": "each file is announced when it is new",
    "modifiedafter": "each file is announced when it is new",
    "recursivefilelookup": "files are read one by one",
    "basepath": "columns of folders are in _metadata.file_path",
    "path": "the events name the files",
    "paths": "the events name the files",
    "ignoremissingfiles": "a file that is gone is set aside, never left out silently",
    "ignorecorruptfiles": "a file that cannot be read is set aside, never left out silently",
}
"""Options of Spark's readers, in lower case, which would leave out files that a list has."""


def check_kinds(given: Mapping[str, Any]) -> None:
    """Raise ValueError for an argument that is of another kind than it has to be.

    given: arguments by name, of the ones that this module names those that there are.
    """
    for name in _WHOLE:
        _check(name, given[name], "a whole number", _is_whole)
    for name in _SECONDS:
        _check(name, given[name], "a finite number of seconds, or None", _is_seconds)
    for name in _FLAGS:
        _check(name, given[name], "True or False", lambda value: isinstance(value, bool))
    for name in _NEEDED:
        _check(name, given[name], "a text", _is_text)
    for name in _TEXTS:
        _check(name, given[name], "a text, or None", _is_text_or_none)
    for name in _MAPPINGS:
        _check(name, given[name], "a mapping of texts to values", _is_mapping)
    _check("trusted", given["trusted"], "a text, or several", _is_several)
    _check("schema", given["schema"], "a StructType, its DDL, or None", _is_schema)
    _check("each", given["each"], "a function of rows and a number", callable)
    _check_sizes(given)
    if given["available_now"] and given["processing_time"] is not None:
        raise ValueError("available_now=True and processing_time are two triggers: leave one out")


def check_pattern(glob: str) -> re.Pattern[str]:
    """The pattern of `path_glob_filter`. Raises ValueError for one that no file would match."""
    if "/" in glob:
        raise ValueError(
            f"path_glob_filter {glob!r} has a slash, and it is compared with names, not paths:"
            " every file would be left out. Leave the folders out of it"
        )
    if is_hidden(glob):
        raise ValueError(
            f"path_glob_filter {glob!r} is for hidden names alone, which Spark's readers leave out"
        )
    bare = re.sub(r"\\.|\{[^}]*\}|\[[^]]*\]", "", glob)
    if re.search(r"[,;|]|\*\.\w+\s+\*", bare):
        raise ValueError(
            f"path_glob_filter {glob!r} looks like several patterns, and it is one: write"
            " '*.{json,csv}'. In front of a ',', ';' or '|' that belongs to names write a"
            " backslash"
        )
    return glob_pattern(glob)


def check_reader_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError for options that would have Spark leave out files that a list has."""
    for name in options:
        if why := _CHOOSE_FILES.get(name.lower()):
            raise ValueError(
                f"reader_options has {name!r}, which would choose among the files of a batch:"
                f" leave it out; {why}"
            )


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError for options of the source that the query sets itself, or that undo it."""
    given = {name.lower(): str(value).strip().lower() for name, value in options.items()}
    if "maxmessagespertrigger" in given:
        raise ValueError(
            "leave the option 'maxMessagesPerTrigger' out: max_files_per_trigger is it"
        )
    if given.get("deleteoncommit", "true") == "false":
        raise ValueError(
            "leave the option deleteOnCommit=false out: nothing would delete the events, and all of"
            " them would come again and again"
        )


def check_aside(name: str | None, queues: Iterable[str]) -> str | None:
    """The name of the queue for what cannot be read. Raises ValueError if it cannot be that.

    queues: those that the query reads.
    """
    if name is None:
        return None
    try:
        legal = queue_name(name)
    except ValueError as error:
        raise ValueError(
            f"set_aside_queue={shown(name)!r} is not allowed; expected {error}"
        ) from None
    if legal in queues:
        raise ValueError(
            f"set_aside_queue={legal!r} is the queue of the events: what is set aside would come as"
            " an event, and be set aside again. Name another queue"
        )
    return legal


def check_outside(rules: Rules, what: str, path: str) -> None:
    """Raise ValueError if a folder of the query is in a container that it reads.

    what: what texts call the folder. path: its path as Spark names it.
    """
    for root in rules.roots.values():
        if is_inside(root, path):
            raise ValueError(
                f"{shown(what)} is in the container {root.name}, whose files are read: what the"
                " query writes there would be announced as files. Name another place"
            )


def _check(name: str, value: object, kind: str, is_right: Callable[[Any], bool]) -> None:
    if not is_right(value):
        what = "nothing" if value in (None, "") else f"a {type(value).__name__}"
        number = f" ({value!r})" if isinstance(value, Real) else ""
        raise ValueError(f"{name} is {what}{number}; expected {kind}")


def _check_sizes(given: Mapping[str, Any]) -> None:
    files, remembered = (given[name] for name in _WHOLE)
    interval, age = (given[name] for name in _SECONDS)
    if files < 1 or remembered < 1 or (interval is not None and interval <= 0):
        raise ValueError(
            f"max_files_per_trigger={files}, max_files_remembered={remembered},"
            f" backfill_interval={interval}: each has to be above 0"
        )
    if remembered > MOST:
        raise ValueError(
            f"max_files_remembered={remembered:,} is more than a log can hold ({MOST:,})"
        )
    if age is not None and age < LATE_S:
        raise ValueError(
            f"max_file_age={age:g} is less than 14 days ({LATE_S} seconds), for which an event may"
            " be under way"
        )


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _is_seconds(value: Any) -> bool:
    if value is None:
        return True
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return is_number and bool(abs(value) <= codec.MOST)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_text_or_none(value: object) -> bool:
    return value is None or _is_text(value)


def _is_mapping(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(
        isinstance(name, str) and isinstance(each, (str, bool, int, float))
        for name, each in value.items()
    )


def _is_several(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping))


def _is_schema(value: object) -> bool:
    return value is None or _is_text(value) or hasattr(value, "fieldNames")
