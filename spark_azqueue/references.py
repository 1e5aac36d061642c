"""largeBody=blob: the small text that stands in a queue for a body that is too large for it.

    {"azqueue-blob":1,"container":"bodies","name":"<32 hexadecimal digits>","size":1048576}

A body is a reference exactly where it begins with `{"azqueue-blob":`; the number is the version of
the form. The sink never sends another body that begins so: it puts such a one into a blob, too. See
docs/claim-check.md. Ring: core (standard library only).
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass

from .errors import UndecodableBody
from .redaction import shown

VERSION = 1
MARK = '{"azqueue-blob":'

_NAME = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Large:
    """A body that goes by reference: UTF-8 where it is a text."""

    data: bytes
    is_text: bool


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a body is. size: in bytes."""

    container: str
    name: str
    size: int

    @property
    def text(self) -> str:
        """As it is enqueued (the queue's encoding comes on top)."""
        fields = {"container": self.container, "name": self.name, "size": self.size}
        return json.dumps({"azqueue-blob": VERSION, **fields}, separators=(",", ":"))


def new_name() -> str:
    """A blob name that was never used: each enqueued reference has a blob of its own."""
    return uuid.uuid4().hex


def looks_like_reference(body: str | bytes | bytearray) -> bool:
    """True for a reference of whatever version, and for what has been made to look like one."""
    if isinstance(body, str):
        return body.startswith(MARK)
    return body.startswith(MARK.encode())


def read_reference(body: str | bytes, container: str) -> Reference | None:
    """The reference that a decoded body is; None for a body that is just itself.

    container: the only one that is looked into. Whoever may put messages could otherwise have any
    blob of the account read, and deleted.
    Raises UndecodableBody for a newer version, another container, or damage.
    """
    if not looks_like_reference(body):
        return None
    try:
        fields = json.loads(body)
        version, found = fields["azqueue-blob"], fields.get("container")
        if isinstance(version, int) and version > VERSION:
            raise UndecodableBody(
                f"its reference to a blob is of version {shown(version, 20)}, and this"
                f" spark-azqueue reads up to {VERSION}: upgrade it"
            )
        name, size = fields["name"], fields["size"]
        if version != VERSION or not _NAME.fullmatch(name) or type(size) is not int or size < 0:
            raise ValueError
        if not isinstance(found, str):
            raise TypeError
    except UndecodableBody:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UndecodableBody(
            "it begins like a reference to a blob, and is none; see docs/claim-check.md"
        ) from None
    if found != container:
        raise UndecodableBody(
            f"its body is in the container {shown(repr(found), 80)}, and option 'blobContainer'"
            f" says '{container}'"
        )
    return Reference(container, name, size)
