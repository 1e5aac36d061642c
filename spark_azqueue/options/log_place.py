"""Option writeAheadLog: the folder of the log, as a value."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_azqueue.service.messages import container_name

_EXPECTED = "blob:<container>/<folder>, or file:/<folder> (an absolute path)"
_BLOB_FOLDER = re.compile(r"[0-9A-Za-z._/-]{1,200}")


@dataclass(frozen=True)
class LogPlace:
    """A folder. container: None for one in a file system, whose `folder` is an absolute path."""

    container: str | None
    folder: str

    def __str__(self) -> str:  # as in the option
        return f"blob:{self.container}/{self.folder}" if self.container else f"file:{self.folder}"


def log_place(value: str) -> LogPlace:
    """Parse the option. Raises ValueError that says what is allowed."""
    scheme, _, rest = value.strip().partition(":")
    if scheme == "blob":
        return _blob_folder(rest)
    if scheme == "file":
        return _path(rest)
    raise ValueError(_EXPECTED)


def _blob_folder(text: str) -> LogPlace:
    container, _, folder = text.partition("/")
    try:
        container = container_name(container)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED}, with {error}") from None
    if not _BLOB_FOLDER.fullmatch(folder) or any(
        not segment or segment.endswith(".") for segment in folder.split("/")
    ):
        raise ValueError(
            f"{_EXPECTED}, with a folder of 1 to 200 characters: letters, digits, '.', '_', '-'"
            " and '/'. No part of it is empty or ends with '.'"
        )
    return LogPlace(container, folder)


def _path(text: str) -> LogPlace:
    path = text.removeprefix("//") if text.startswith("///") else text
    segments = path.rstrip("/").split("/")
    if not path.isprintable() or segments.pop(0) or not segments:
        raise ValueError(_EXPECTED)
    if any(segment in ("", ".", "..") for segment in segments) or segments[0] == "~":
        raise ValueError(f"{_EXPECTED}, without '~', '.', '..' or '//' in it")
    return LogPlace(None, "/" + "/".join(segments))
