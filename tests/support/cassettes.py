"""What Azure's SDKs recorded of the real service, as values. `make recordings` fetches it.

Only read, never run: the YAML is loaded without making any of the objects that it names.
"""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml
from recordings import FOLDER, RELEASES

MOST_BYTES = 400_000
"""Larger cassettes are left out: they are uploads of megabytes, and show nothing else."""


class Recorded(NamedTuple):
    """One exchange: what was asked, and what the service answered."""

    cassette: str
    number: int
    method: str
    host: str
    path: str
    """Percent-encoded, as is `query`."""
    query: str
    asked: dict[str, str]
    """Headers of the request, by lower-case name. The recordings leave Authorization out."""
    body: bytes
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    """Of the answer, with names in lower case."""
    content: bytes

    @property
    def service(self) -> str:
        """ "queue", "blob", or something else (a token service)."""
        return self.host.partition(".")[2].partition(".")[0]

    @property
    def fields(self) -> dict[str, str]:
        """The answer's headers, the last one of each name."""
        return dict(self.headers)

    @property
    def names(self) -> frozenset[str]:
        """The names of the query's parameters."""
        return frozenset(piece.partition("=")[0] for piece in self.query.split("&") if piece)

    @property
    def parts(self) -> list[str]:
        """The parts of the path."""
        return [part for part in self.path.split("/") if part]

    def answer(self) -> bytes:
        """The answer's bytes, framed as recorded: in chunks (here two) or with its length."""
        lines = [f"HTTP/1.1 {self.status} {self.reason}"]
        chunked = "transfer-encoding" in self.fields
        for name, value in self.headers:
            if name == "content-length" and self.method != "HEAD":
                # What was hidden in a recording (names, keys) changed the length of some.
                value = str(len(self.content))
            lines.append(f"{name}: {value}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
        if self.method == "HEAD" or not chunked:
            return head + (b"" if self.method == "HEAD" else self.content)
        pieces = filter(None, (self.content[:2], self.content[2:]))
        return head + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


class _Plain(yaml.CSafeLoader):
    """Takes what names a Python class for the plain values in it."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found = {}
        for name, value in node.value:
            key = self.construct_object(name, deep=True)
            key = key[0] if isinstance(key, list) else key  # a class of names, such as multidict's
            found[key] = self.construct_object(value, deep=True)
        return found

    def plain(self, _: str, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)


_Plain.add_multi_constructor("tag:yaml.org,2002:python/", _Plain.plain)


@functools.cache
def recorded(kind: str) -> list[Recorded]:
    """Every exchange of the releases of one package ("queue" or "blob"), in order."""
    return [
        exchange
        for name in RELEASES
        if name.startswith(f"azure-storage-{kind}-")
        for exchange in _in_release(FOLDER / name)
    ]


def _in_release(archive: Path) -> Iterator[Recorded]:
    release = archive.stem.rpartition("-")[2]
    with zipfile.ZipFile(archive) as files:
        for info in sorted(files.infolist(), key=lambda each: each.filename):
            folder, _, name = info.filename.rpartition("/")
            if not folder.endswith("/recordings") or not name.endswith(".yaml"):
                continue
            if info.file_size <= MOST_BYTES:
                whole = yaml.load(files.read(info), Loader=_Plain)
                for number, each in enumerate(whole["interactions"]):
                    yield _exchange(f"{release}/{name[:-5]}", number, each)


def _exchange(cassette: str, number: int, raw: dict[str, Any]) -> Recorded:
    asked, told = raw["request"], raw["response"]
    address = urlsplit(asked["uri"])
    return Recorded(
        cassette,
        number,
        asked["method"],
        address.hostname or "",
        address.path,
        address.query,
        {name.lower(): _first(value) for name, value in asked["headers"].items()},
        _bytes(asked["body"]),
        int(told["status"]["code"]),
        str(told["status"]["message"]),
        tuple(
            (name.lower(), str(value))
            for name, values in told["headers"].items()
            for value in (values if isinstance(values, list) else [values])
        ),
        _bytes(told["body"]["string"]),
    )


def _first(value: Any) -> str:
    return str(value[0] if isinstance(value, list) else value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value or "").encode()
