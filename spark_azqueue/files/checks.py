"""Checks of the arguments of `read_new_files`, without calls to Spark or the service."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from spark_azqueue.journal import codec
from spark_azqueue.service.messages import queue_name
from spark_azqueue.service.redaction import shown

from .globs import Glob
from .memory import LATE_S, MOST_REMEMBERED
from .rules import Rules, is_hidden, is_inside

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
"""Options of Spark's readers, in lower case, with which Spark could leave out files of a list; and
what to use in their place."""


def check_kinds(given: Mapping[str, Any]) -> None:
    """Raise ValueError for an argument of the wrong type.

    given: arguments by name. Every argument that this module checks must be included.
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


def check_pattern(glob: str) -> Glob:
    """Parse `path_glob_filter`. Raises ValueError for a pattern that no name can match, or that is
    probably a mistake.

    Events about files that do not match are deleted, so a mistake in the pattern would lose events.
    A character after a backslash is matched literally.
    """
    plain = re.sub(r"\\.|\[.[^]]*\]", "x", glob)
    whys = (why for looks_so, why in _SLIPS if re.search(looks_so, plain))
    if why := _slip_in(glob) or next(whys, None) or _slip_in_braces(plain):
        raise ValueError(f"path_glob_filter {glob!r} {why}")
    return Glob(glob)


_SEVERAL = (
    "looks like several patterns, and it is one: write '*.{json,csv}', without blanks. In front of"
    " a ',', ';', '|', '&' or blank that belongs to names write a backslash"
)
_BLANK = (
    "has a blank that names would have to have, too: leave it out. In front of one that belongs to"
    " names write a backslash"
)
_HIDDEN = "is for hidden names, which Spark's readers leave out"
_NO_GLOB = (
    "is written like a regular expression or a pattern of SQL, and it is a glob, as in '*.json':"
    " files would be left out. In front of a character that belongs to names write a backslash"
)
_SLIPS = (
    (
        r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\u200b]",
        "has a character that cannot be seen, and that no name of a file that is read has: write"
        " it anew",
    ),
    (r"\A\s|\s\Z|\*\s+\.\w+\Z|\*\.\s+\w+\Z", _BLANK),
    (
        r"""(?s)\A(["'`]).*\1\Z|\A[\u2018-\u201f\xab].*[\u2018-\u201f\xbb]\Z""",
        "is in quotation marks, which names would have to have, too: leave them out",
    ),
    (r"\A[!^]|\$\Z|\A\(\?|\A(?:glob|regex):|\*\.\(|\A%[^*?]*\Z", _NO_GLOB),
    # After a wildcard and an extension: a blank, a word or a sign, and another wildcard.
    (r"[*?][^\s&+:]*\.[\w{},]*(?:\s+(?:\S+\s+){0,2}|[&+:]+)\S*[*?{]", _SEVERAL),
    (r"\}\s*(?:\b(?i:and|or)\b|[&+:]+)\s*\{", _SEVERAL),
)
"""Regular expressions for likely mistakes in a pattern, and for each the reason why it is a
mistake."""

_EXTENSIONS = frozenset(
    ("json", "jsonl", "ndjson", "csv", "tsv", "txt", "xml", "parquet", "avro", "orc", "gz", "zip")
)


def _slip_in(glob: str) -> str | None:
    if "/" in glob:
        return (
            "has a slash, and it is compared with names, not paths: every file would be left out."
            " Leave the folders out of it"
        )
    if re.search(r"\\(?:[0-9A-Za-z\\]|\Z)", glob):
        return (
            "has a backslash that says nothing of the next character, and no name of a file that is"
            " read has one: leave it out, and folders, too"
        )
    if is_hidden(glob):
        return _HIDDEN
    if glob.lower() in _EXTENSIONS:
        return f"would match files of just this name: write '*.{glob}'"
    classes = re.findall(r"\[(.[^]]*)\]", glob)
    if any(re.search(r"\w{2},|\*\.", each) or each.lower() in _EXTENSIONS for each in classes):
        return "has a list in square brackets, which stand for one character: write '*.{json,csv}'"
    return None


def _slip_in_braces(plain: str) -> str | None:
    inner = re.compile(r"\{([^{}]*)\}")
    for group in inner.finditer(plain):
        parts = group[1].split(",")
        if not any(parts):
            return "has braces with nothing in them: write '*.{json,csv}', or leave them out"
        if any(part != part.strip() for part in parts):
            return _BLANK
        if re.search(r"[;|]", group[1]) or (len(parts) == 1 and re.search(r"[\s&]", group[1])):
            return _SEVERAL
        if group.start() == 0 and any(is_hidden(part) for part in parts if part):
            return _HIDDEN
    outside = plain
    while inner.search(outside):
        outside = inner.sub("x", outside)
    return _SEVERAL if re.search(r"[,;|]", outside) else None


def check_reader_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError for options with which Spark would leave out files of a list."""
    for name in options:
        if why := _CHOOSE_FILES.get(name.lower()):
            raise ValueError(
                f"reader_options has {name!r}, which would choose among the files of a batch:"
                f" leave it out; {why}"
            )


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError for source options that `read_new_files` sets itself, or that conflict with
    it.
    """
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
    """Return the name of the queue for quarantined files. Raises ValueError for an invalid name.

    queues: the queues that the query reads.
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
    """Raise ValueError if a folder of the query is in a container that the query reads.

    what: the folder as text for the error. path: path of the folder in Spark's form.
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
    if remembered > MOST_REMEMBERED:
        raise ValueError(
            f"max_files_remembered={remembered:,} is more than a log can hold ({MOST_REMEMBERED:,})"
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
    return is_number and bool(abs(value) <= codec.HIGHEST)


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
