"""Rules that select files by path, and paths in Spark's form. Values and pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spark_azqueue.files.events.trusted import TrustedPlace, places

from .globs import Glob

PLACE = re.compile(r"[a-z0-9:-]{1,63}/[$a-z0-9-]{3,63}")
"""Form of a container's name ("account/container"), which `roots_of` makes and the log stores."""

_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(/.*)", re.DOTALL)
"""Scheme, host and path, as Hadoop parses them."""


class Root(NamedTuple):
    """A trusted container. name: "account/container". spark: path of the container in Spark.

    https: URL of the container. Path and URL end with a slash.
    """

    name: str
    container: str
    spark: str
    https: str


class Rules(NamedTuple):
    """Rules of a query. roots: trusted containers by name. wanted: glob for names of files; None
    for every name.
    """

    roots: Mapping[str, Root]
    wanted: Glob | None = None
    allow_overwrites: bool = False


def roots_of(
    trusted: str | Iterable[str], paths: Mapping[str, str] | None = None
) -> dict[str, Root]:
    """Return the trusted containers by name. trusted: as for `blob_events`.

    paths: for texts of `trusted`, the path at which Spark finds the container's files, if it is not
    `abfss://…`. Raises ValueError for a text that names no container, and for a container without a
    path.
    """
    texts = [trusted] if isinstance(trusted, str) else list(trusted)
    given = dict(paths or {})
    found: dict[str, Root] = {}
    for text, place in zip(texts, places(texts), strict=True):
        root = _root(place, given.pop(text, place.abfss), text)
        if found.setdefault(root.name, root) != root:
            raise ValueError(
                f"trusted names the container '{root.name}' twice, at different addresses: one"
                " query reads one of them"
            )
    for root in found.values():
        others = (other for other in found.values() if other is not root)
        if inner := next((other for other in others if is_inside(root, other.spark)), None):
            raise ValueError(
                f"{inner.spark!r} of {inner.name} is in {root.spark!r} of {root.name}, so its files"
                " would be read twice: name the outer one alone, or two folders beside each other"
            )
    if given:
        raise ValueError(
            f"paths has {sorted(given)[0]!r}, which is none of trusted: use the same texts in both"
        )
    return found


def _root(place: TrustedPlace, path: str | None, text: str) -> Root:
    if path is None:
        raise ValueError(
            f"trusted has {text!r}, which is no address of Azure's, so no abfss:// path follows"
            f" from it: say where Spark finds its files, as in paths={{{text!r}: '/mnt/landing'}}"
        )
    name, path = f"{place.account}/{place.container}", str(path).rstrip("/") + "/"
    if not PLACE.fullmatch(name):
        raise ValueError(f"trusted has {text!r}, whose account has a longer name than hosts have")
    if not _PARTS.fullmatch(path) or {".", ".."} & {*path.split("/")}:
        raise ValueError(
            f"paths has {text!r}: {path!r}, which is no absolute path: begin it with '/', or with"
            " the scheme of a file system, as in 'abfss://…', and without '.' and '..'"
        )
    return Root(name, place.container, path, place.https)


def is_hidden(path: str) -> bool:
    """Return True for a path that Spark's readers silently skip: `_SUCCESS`, `_temporary/…`,
    `.x`."""
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part)
        for part in path.split("/")
    ) or path.endswith("._COPYING_")


_LEADS_OUT = re.compile(
    r"\A/|(?:\A|/)\.{1,2}(?:/|\Z)|[\x00-\x1f\x7f-\x9f\u2028\u2029\\]|%(?:25)*(?:2f|5c)", re.I
)
"""Matches the paths that `blob_events` refuses, and also encoded slashes, because a reader that
decodes a path twice would open another path.
"""


LONGEST = 1_024
"""Maximum length of a blob's name in characters, by the service's rule."""


def trouble_with(path: str) -> str | None:
    """Return the reason why Spark cannot read this path; None if Spark can read it."""
    if len(path) > LONGEST:
        return "the path is longer than a blob's name can be"
    if _LEADS_OUT.search(path):
        return "the path could lead out of its container"
    if "//" in path:
        return "the path has an empty part, which Hadoop's paths cannot have"
    return None


def folder_of(path: str) -> str:
    """Return the first folder of a path in its container; the path itself if it has no folder."""
    return path.partition("/")[0]


def cut(path: str) -> str:
    """Cut a path that is too long for the log. A path that was cut cannot be the path of a blob."""
    return path if len(path) <= LONGEST else f"{path[:LONGEST]}…"


def spark_path(root: Root, path: str) -> str:
    """Return the path for Spark's readers, with glob characters escaped."""
    return re.sub(r"([*?{}\[\]])", r"\\\1", root.spark + path)


def path_on(path: str) -> str:
    """Return a path of Spark without its scheme and host, for the operating system."""
    return _parts(path)[2]


def may_be_a_mount(root: Root) -> bool:
    """Return True if the container may be a mounted folder, which is empty while it is not mounted:
    its path has no host.
    """
    return not _parts(root.spark)[1]


def path_below(root: Root, found: str) -> str | None:
    """Return the path of a listed file relative to the root; None if the file is not below the
    root.

    A root without scheme or host matches any scheme or host, because Spark adds the scheme and host
    of its default file system.
    """
    wanted, there = _parts(root.spark), _parts(found)
    same = all(
        not ours or ours == theirs for ours, theirs in zip(wanted[:2], there[:2], strict=True)
    )
    return there[2].removeprefix(wanted[2]) if same and there[2].startswith(wanted[2]) else None


def is_inside(root: Root, path: str) -> bool:
    """Return True if a path in Spark is the path of a container, or is below this path.

    A path without a scheme matches any scheme.
    """
    wanted, there = _parts(root.spark), _parts(path.rstrip("/") + "/")
    same = not (wanted[0] and there[0]) or wanted[0] == there[0]
    if same and wanted[1] in ("", there[1]) and there[2].startswith(wanted[2]):
        return True
    found = _OF_AZURE.match(there[1])  # another scheme, such as wasbs://, or another host
    return found is not None and f"{found[2]}/{found[1]}" == root.name


_OF_AZURE = re.compile(r"([^@]+)@([a-z0-9]+)\.")
"""Container and account in the host of abfss:// and wasbs://."""


def _parts(path: str) -> tuple[str, str, str]:
    found = _PARTS.fullmatch(path)
    scheme, host, rest = found.groups("") if found else ("", "", path)
    return scheme.lower(), host, re.sub("/+", "/", rest)
