"""Messages, leases and encodings; the service's limits and naming rules.

Each text is decoded by itself and strictly, so one bad body does not affect the other messages of
its page.
"""

from __future__ import annotations

import base64
import binascii
import enum
import math
import re
from typing import NamedTuple, TypeAlias

from spark_azqueue.errors import InvalidRow, UndecodableBody

MAX_STORED_BYTES = 65_536
"""64 KiB: the most text (as UTF-8) that the service stores in one message."""

MAX_PER_REQUEST = 32
"""The most messages that the service returns for one request."""

MAX_DEQUEUE_COUNT = 2**31 - 1
"""The column `dequeue_count` is an int."""

UNKNOWN_TIME = 0
"""Stands for a time that could not be read from the service's answer; null in a row."""

# XML 1.0 cannot hold these, so the service refuses them at put (400 InvalidXmlDocument).
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


class Encoding(str, enum.Enum):
    """How a body is stored in a message's text."""

    NONE = "none"
    BASE64 = "base64"
    AUTO = "auto"
    """For reading only: base64 or none, whichever the text looks like (see `decode`)."""


class BodyType(str, enum.Enum):
    """Spark type of the column `body`."""

    STRING = "string"
    BINARY = "binary"


class QueueRef(NamedTuple):
    """Which queue: a name is unique within its account only. Both are plain names."""

    account: str
    name: str


class Message(NamedTuple):
    """A message as returned by a dequeue or a peek.

    Times are microseconds since 1970 UTC (the service gives whole seconds). `intact` is False if
    the reply was damaged inside this message. Then `text` is only what could be recovered and
    counts as undecodable, times may be UNKNOWN_TIME, and the dequeue count may be 0.
    """

    queue: QueueRef
    message_id: str
    text: str
    insertion_time: int
    expiration_time: int
    dequeue_count: int
    next_visible_time: int | None = None  # a peek does not say
    intact: bool = True

    @property
    def key(self) -> MessageKey:
        """Which message this is, whatever its text and receipt are."""
        return MessageKey(self.queue, self.message_id)

    @property
    def size(self) -> int:
        """Bytes of the text as stored."""
        return utf8_size(self.text)


def utf8_size(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(raw_bytes(text))


def decode(text: str, encoding: Encoding, body_type: BodyType) -> str | bytes:
    """Turn a message's stored text into the body of a row.

    With AUTO, a text counts as base64 if it is canonical base64 (RFC 4648, with padding), is not
    empty and, for a string body, decodes to UTF-8. Any other text is the body itself. Some plain
    texts look like base64 ("Zm9v", or "12345678" as binary); AUTO decodes those, too.

    Raises UndecodableBody with the reason, but without the text (it may be confidential).
    """
    if encoding is Encoding.AUTO:
        encoding = Encoding.BASE64 if looks_like_base64(text, body_type) else Encoding.NONE
    if encoding is Encoding.NONE:
        return text if body_type is BodyType.STRING else text.encode("utf-8", "surrogatepass")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UndecodableBody(
            f"the text is not base64 ({error}), though messageEncoding=base64"
        ) from error
    if body_type is BodyType.BINARY:
        return raw
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UndecodableBody(
            f"the base64 holds bytes that are not UTF-8 text (at byte {error.start});"
            " read them with bodyType=binary"
        ) from error


def looks_like_base64(text: str, body_type: BodyType) -> bool:
    """True if AUTO takes this text for base64 (see `decode`)."""
    try:
        raw = base64.b64decode(text, validate=True)
        if body_type is BodyType.STRING:
            raw.decode("utf-8")
    except ValueError:  # UnicodeDecodeError and binascii.Error are such
        return False
    return text != "" and base64.b64encode(raw).decode("ascii") == text


def encode(body: str | bytes | bytearray, encoding: Encoding) -> str:
    """Turn a row's body into the text to store.

    Raises InvalidRow for what the service would refuse: without base64, bytes that are not UTF-8
    or a character that XML cannot hold; more than 64 KiB as stored (48 KiB before base64).
    """
    size = stored_size(body, encoding)
    if size > MAX_STORED_BYTES:
        raise InvalidRow(
            f"the body takes {size:,} bytes as stored; a message holds at most"
            f" {MAX_STORED_BYTES:,} (49,152 before base64). With largeBody=blob such bodies go by"
            " way of blob storage"
        )
    if encoding is Encoding.BASE64:
        text = base64.b64encode(raw_bytes(body)).decode("ascii")
    else:
        text = body if isinstance(body, str) else _as_text(body)
        if bad := _NOT_XML.search(text):
            raise InvalidRow(
                f"the body holds the character U+{ord(bad[0]):04X} at position {bad.start()},"
                " which the service refuses; remove it, or use messageEncoding=base64"
            )
    return text


def stored_size(body: str | bytes | bytearray, encoding: Encoding) -> int:
    """Size of this body in the queue, in bytes."""
    size = utf8_size(body) if isinstance(body, str) else len(body)
    return (size + 2) // 3 * 4 if encoding is Encoding.BASE64 else size


def raw_bytes(body: str | bytes | bytearray) -> bytes:
    """The bytes of a body; a text becomes UTF-8."""
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)


def _as_text(body: bytes | bytearray) -> str:
    try:
        return bytes(body).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRow(
            f"the binary body is not UTF-8 text (at byte {error.start});"
            " use messageEncoding=base64 for bytes"
        ) from error


def delay_not_below_ttl(delay_s: int, ttl_s: int | None) -> str | None:
    """Say why the service would refuse this pair, or None ("Put Message": delay < time to live).

    Both in seconds. ttl_s None: the service's default, 7 days.
    """
    ttl = WEEK_S if ttl_s is None else ttl_s
    if ttl == NEVER_EXPIRES or delay_s < ttl:
        return None
    return f"the delay of {delay_s} s is not below the time to live of {ttl} s"


class VisibleAt(NamedTuple):
    """A delay that ends at this moment, in seconds since 1970, whenever the request is sent."""

    moment: float


Delay: TypeAlias = int | VisibleAt
"""Until a message is visible: seconds from the request on, or until a moment."""


def seconds_of(delay: Delay, now: float) -> int:
    """The delay of a request that is sent now: whole seconds, never too few, 7 days at most."""
    if isinstance(delay, int):
        return delay
    return min(max(0, math.ceil(delay.moment - now)), MAX_VISIBILITY_S)


MIN_VISIBILITY_S = 1


MAX_VISIBILITY_S = 7 * 24 * 3600
"""Bounds of the visibility timeout at a dequeue (REST reference, "Get Messages")."""


class MessageKey(NamedTuple):
    """Which message: an id is unique within its queue only."""

    queue: QueueRef
    message_id: str


class Lease(NamedTuple):
    """The right to delete or update one message. The offset holds it, so it survives a restart.

    A renewal or another dequeue makes a new receipt and invalidates this one.
    """

    queue: QueueRef
    message_id: str
    pop_receipt: str

    @property
    def key(self) -> MessageKey:
        """Which message it is a lease of."""
        return MessageKey(self.queue, self.message_id)


class Received(NamedTuple):
    """A message that is leased, and the lease of that time: what a dequeue gives."""

    message: Message
    lease: Lease


WEEK_S = 7 * 24 * 3600


NEVER_EXPIRES = -1


_QUEUE_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9])*\Z")


def queue_name(value: str) -> str:
    """Return a legal queue name, stripped (REST reference, "Naming queues and metadata").

    Raises ValueError that says what is allowed.
    """
    name = value.strip()
    if not is_queue_name(name):
        raise ValueError(
            "a queue name: 3 to 63 characters, lower-case letters, digits and single hyphens,"
            " beginning and ending with a letter or digit"
        )
    return name


def is_queue_name(value: str) -> bool:
    """True for a legal queue name."""
    return 3 <= len(value) <= 63 and _QUEUE_NAME.match(value) is not None


MOST_IN_A_BATCH = 100_000
"""The most leases in a micro-batch (the highest `maxMessagesPerTrigger`)."""

MOST_IN_A_PLAN = 100 * MOST_IN_A_BATCH
"""The most messages of a batch with leaseOn=executors, if no option says so."""


def container_name(value: str) -> str:
    """Return a legal container name ("Naming containers"); the rules are those of queue names.

    Raises ValueError that says what is allowed.
    """
    try:
        return queue_name(value)
    except ValueError as error:
        raise ValueError(str(error).replace("queue name", "container name")) from None
