"""largeBody=blob: the reference that a message contains in place of a body that is stored as a
blob.

    {"azqueue-blob":1,"container":"bodies","name":"<32 hexadecimal digits>","size":1048576}

A body is a reference if and only if the body begins with `{"azqueue-blob":`. The number 1 is the
version of the format. If a user's body begins with these characters, the sink stores it as a blob.
So only references begin with them. See docs/writing.md.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from functools import partial

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.errors.conditions import Condition

from ..messages import is_queue_name
from ..redaction import shown

_unreadable = partial(UndecodableBody, condition=Condition.INVALID_BLOB_REFERENCE)

REFERENCE_VERSION = 1
MARK = '{"azqueue-blob":'

MAX_BODY_BYTES = 2**30
"""Maximum size of a body: 1 GiB. A larger blob is not read.

The limit is below 2 GiB, the maximum of a column in one of Spark's Arrow batches, and of a value in
the JVM.
"""

_NAME = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Large:
    """A body to be stored as a blob. If `is_text` is true, `data` is UTF-8."""

    data: bytes
    is_text: bool


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference to the blob that has a body. size: size of the blob in bytes."""

    container: str
    name: str
    size: int

    @property
    def text(self) -> str:
        """The text of the reference, before `messageEncoding` is applied."""
        fields = {"container": self.container, "name": self.name, "size": self.size}
        return json.dumps({"azqueue-blob": REFERENCE_VERSION, **fields}, separators=(",", ":"))


def new_name() -> str:
    """Return an unused name for a blob. Two messages never share a blob."""
    return uuid.uuid4().hex


def is_blob_name(text: str) -> bool:
    """Return True if `new_name` could have returned this name.

    Blobs with other names are never read or deleted.
    """
    return _NAME.fullmatch(text) is not None


def looks_like_reference(body: str | bytes | bytearray) -> bool:
    """Return True if the body begins like a reference of any version. The rest of the body may be
    malformed."""
    if isinstance(body, str):
        return body.startswith(MARK)
    return body.startswith(MARK.encode())


def read_reference(body: str | bytes, container: str) -> Reference | None:
    """Parse a decoded body as a reference. Returns None for an ordinary body.

    container: the only container that a reference may name. Otherwise a sender of messages could
    make the source read and delete any blob of the account. Raises UndecodableBody for a newer
    version, another container, or a damaged reference.
    """
    if not looks_like_reference(body):
        return None
    try:
        fields = json.loads(body)
        version, found = fields["azqueue-blob"], fields.get("container")
        newer = type(version) is int and version > REFERENCE_VERSION
        name, size = ("", 0) if newer else (fields["name"], fields["size"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _damaged() from None
    if newer:
        raise _unreadable(
            f"its reference to a blob is of version {shown(version, 20)}, and this"
            f" spark-azqueue reads up to {REFERENCE_VERSION}: upgrade it"
        )
    if (
        type(version) is not int
        or version != REFERENCE_VERSION
        or type(size) is not int
        or size < 0
    ):
        raise _damaged()
    if not isinstance(name, str) or not is_blob_name(name):
        raise _damaged()
    if found != container:
        # container names follow the rules for queue names
        is_legal = isinstance(found, str) and is_queue_name(found)
        where = f"the container '{found}'" if is_legal else "no legal container"
        raise _unreadable(f"its body is in {where}, and option 'blobContainer' says '{container}'")
    if size > MAX_BODY_BYTES:
        raise _unreadable(
            f"its blob is to have more than {MAX_BODY_BYTES:,} bytes, which is the most that a body"
            " may have"
        )
    return Reference(container, name, size)


def _damaged() -> UndecodableBody:
    return _unreadable("it looks like a blob reference but is not a valid one; see docs/writing.md")
