"""Packs the leases, ids and pending deletes of a queue into texts of an offset.

Each text is one column of values. Either all values have the same length, or the column is a JSON
list. Unpacked values are checked. The offset has a count beside each text, which limits the number
of values in the text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable, Iterable, Sequence

from spark_azqueue.errors import ServiceError
from spark_azqueue.journal.codec import LATEST
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.service.blobs.references import is_blob_name
from spark_azqueue.service.fields import MAX_ID, MAX_RECEIPT, is_message_id, is_receipt
from spark_azqueue.service.messages import Lease, MessageKey, QueueRef

NO_BLOB = "0" * 32
"""Placeholder for the blob name of a message that has no blob."""

_BYTES_PER_LEASE = MAX_ID + MAX_RECEIPT + 2 * len('", "')
_FRAME = 4 + 2 * len('\0[""]')
_DEFLATE_FRAME = 64
_TEXT_BYTES = 8
_TIME_BYTES = 5


class DamagedOffset(ValueError):  # noqa: N818
    """Error for an offset that was changed after it was written.

    The text names the damaged part.
    """


def pack_leases(leases: Iterable[Lease]) -> str:
    """Pack the leases of one queue. Raises ServiceError if `unpack_leases` would refuse a lease."""
    rows = list(leases)
    ids = _column("message id", [lease.message_id for lease in rows], _guid_bytes, is_message_id)
    receipts = _column("receipt", [lease.pop_receipt for lease in rows], _base64_bytes, is_receipt)
    payload = len(ids).to_bytes(4, "big") + ids + receipts
    return base64.b64encode(zlib.compress(payload, 6)).decode("ascii")


def unpack_leases(queue: QueueRef, text: object, count: int) -> list[Lease]:
    """Unpack the leases of one queue. Raises DamagedOffset, also if their number is not `count`."""
    raw = _raw(text, "leases", _deflated_at_most(count))
    payload = _inflated(raw, _unpacked_at_most(count), "leases")
    split = 4 + int.from_bytes(payload[:4], "big")
    if split > len(payload):
        raise DamagedOffset("its leases are cut short")
    ids = _values(payload[4:split], count, "message ids", _guid, is_message_id)
    receipts = _values(payload[split:], count, "pop receipts", _base64, is_receipt)
    return [Lease(queue, *pair) for pair in zip(ids, receipts, strict=True)]


def pack_blobs(names: Sequence[str]) -> str:
    """Pack the blob names of one queue's messages; NO_BLOB for a message without a blob."""
    column = bytes([16]) + b"".join(map(bytes.fromhex, names))
    return base64.b64encode(column).decode("ascii")


def unpack_blobs(text: object, count: int) -> list[str]:
    """Unpack blob names. Raises DamagedOffset, also if their number is not `count`."""
    column = _raw(text, "blob names", 1 + 16 * count)
    if column[:1] != b"\x10":
        raise DamagedOffset("its blob names are not of 32 hexadecimal digits")
    return _values(column, count, "blob names", bytes.hex, is_blob_name)


def pack_ids(ids: list[str]) -> str:
    """Pack ids of messages. Raises ServiceError if `unpack_ids` would refuse an id."""
    column = _column("message id", ids, _guid_bytes, is_message_id)
    return base64.b64encode(column).decode("ascii")


def unpack_ids(text: object, count: int) -> list[str]:
    """Unpack ids of messages. Raises DamagedOffset, also if their number is not `count`."""
    column = _raw(text, "message ids", _FRAME + count * (MAX_ID + len('", "')))
    return _values(column, count, "message ids", _guid, is_message_id)


def pack_texts(fingerprints: Iterable[int]) -> str:
    """Pack the fingerprints of the texts of one queue's messages."""
    return base64.b64encode(_numbers(fingerprints, _TEXT_BYTES)).decode("ascii")


def unpack_texts(text: object, count: int) -> list[int]:
    """Unpack fingerprints. Raises DamagedOffset, also if their number is not `count`."""
    column = _raw(text, "digests of texts", _TEXT_BYTES * count)
    if len(column) != _TEXT_BYTES * count:
        raise DamagedOffset("it has more or fewer digests of texts than messages")
    return _numbers_in(column, _TEXT_BYTES)


def pack_pending(pending: Sequence[PendingDelete]) -> str:
    """Pack the pending deletes of one queue. Raises ServiceError for an invalid id."""
    ids = [each.key.message_id for each in pending]
    packed = _column("message id", ids, _guid_bytes, is_message_id)
    texts = _numbers((each.fingerprint for each in pending), _TEXT_BYTES)
    times = _numbers((each.expires for each in pending), _TIME_BYTES)
    return base64.b64encode(zlib.compress(times + texts + packed, 6)).decode("ascii")


def unpack_pending(queue: QueueRef, text: object, count: int) -> list[PendingDelete]:
    """Unpack the pending deletes of one queue.

    Raises DamagedOffset, also if their number is not `count`.
    """
    raw = _raw(text, "pending deletes", _deflated_at_most(count))
    payload = _inflated(raw, _unpacked_at_most(count), "pending deletes")
    after_times = _TIME_BYTES * count
    after_texts = after_times + _TEXT_BYTES * count
    if len(payload) <= after_texts:
        raise DamagedOffset("its pending deletes are cut short")
    times = _numbers_in(payload[:after_times], _TIME_BYTES)
    if max(times) >= LATEST:
        raise DamagedOffset("the time of one of its pending deletes is not valid")
    texts = _numbers_in(payload[after_times:after_texts], _TEXT_BYTES)
    ids = _values(payload[after_texts:], count, "message ids", _guid, is_message_id)
    return [
        PendingDelete(MessageKey(queue, each), fingerprint, expires)
        for each, fingerprint, expires in zip(ids, texts, times, strict=True)
    ]


def _numbers(values: Iterable[int], width: int) -> bytes:
    return b"".join(value.to_bytes(width, "big") for value in values)


def _numbers_in(column: bytes, width: int) -> list[int]:
    return [int.from_bytes(column[at : at + width], "big") for at in range(0, len(column), width)]


def _unpacked_at_most(count: int) -> int:
    return _FRAME + count * _BYTES_PER_LEASE


def _deflated_at_most(count: int) -> int:
    size = _unpacked_at_most(count)
    return size + size // 1000 + _DEFLATE_FRAME  # incompressible data grows a little


def _raw(text: object, what: str, most: int) -> bytes:
    if not isinstance(text, str):
        raise DamagedOffset(f"its {what} are missing")
    if len(text) > (most + 2) // 3 * 4:
        raise DamagedOffset(f"its {what} are larger than its number of messages allows")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise DamagedOffset(f"its {what} are not base64") from None


def _inflated(raw: bytes, most: int, what: str) -> bytes:
    """Decompress data. Raises DamagedOffset if the result has more than `most` bytes."""
    inflating = zlib.decompressobj()
    try:
        payload = inflating.decompress(raw, most + 1)
    except zlib.error:
        raise DamagedOffset(f"its {what} cannot be decompressed") from None
    if len(payload) > most:
        raise DamagedOffset(f"its {what} are larger than its number of messages allows")
    if not inflating.eof or inflating.unused_data or len(payload) < 4:
        raise DamagedOffset(f"its {what} are cut short, or other data follows them")
    return payload


def _column(
    what: str,
    values: list[str],
    shrink: Callable[[str], bytes | None],
    legal: Callable[[str], bool],
) -> bytes:
    small = [shrink(value) for value in values]
    width = len(small[0] or b"") if small else 0
    if 0 < width < 256 and all(item is not None and len(item) == width for item in small):
        return bytes([width]) + b"".join(item for item in small if item is not None)
    if not all(map(legal, values)):
        raise ServiceError(
            f"the service gave a {what} that cannot be kept in a checkpoint: it is empty, too long,"
            " or has characters that the service never uses. Is there a proxy on the way, or"
            " another service at this address?"
        )
    return b"\0" + json.dumps(values).encode()


def _values(
    column: bytes,
    count: int,
    what: str,
    grow: Callable[[bytes], str],
    legal: Callable[[str], bool],
) -> list[str]:
    width, body = column[0] if column else 0, column[1:]
    if width == 0:
        values = _listed(body, count)
    elif len(body) == count * width:
        values = [grow(body[at : at + width]) for at in range(0, len(body), width)]
    else:
        values = []
    if len(values) != count:
        raise DamagedOffset(f"it has more or fewer {what} than messages")
    if not all(map(legal, values)):
        raise DamagedOffset(f"one of its {what} is not valid")
    return values


def _listed(body: bytes, count: int) -> list[str]:
    """Return the values of a JSON list of strings without escapes (see `service/fields.py`).

    `json.loads` is not used, because a list of empty lists needs thirty times the memory of its
    text.
    """
    text = body.decode("ascii", "replace")
    if not (text.startswith('["') and text.endswith('"]')):
        return []
    return text[2:-2].split('", "', count)


_GUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _guid_bytes(value: str) -> bytes | None:
    return bytes.fromhex(value.replace("-", "")) if _GUID.fullmatch(value) else None


def _guid(raw: bytes) -> str:
    if len(raw) != 16:
        raise DamagedOffset(f"its message ids are of {len(raw)} bytes")
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _base64_bytes(value: str) -> bytes | None:
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if _base64(raw) == value else None


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
