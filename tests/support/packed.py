"""Rows of every type that a pack holds, and packs made by hand, for tests."""

from __future__ import annotations

import base64
import datetime
import gzip
import struct
from decimal import Decimal

import pyarrow as pa

from spark_azqueue.rows.packing.arrow_format import MAGIC

_BERLIN = datetime.timezone(datetime.timedelta(hours=1))
_EVERY: dict[str, tuple[pa.DataType, list[object]]] = {
    "flag": (pa.bool_(), [True, False, None]),
    "tiny": (pa.int8(), [-128, 127, None]),
    "small": (pa.int16(), [-32_768, 32_767, None]),
    "number": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "big": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "single": (pa.float32(), [0.1, -1.5, None]),
    "double": (pa.float64(), [0.1, 1e300, None]),
    "price": (pa.decimal128(38, 18), [Decimal("1.5"), Decimal(10) ** 19, None]),
    "text": (pa.string(), ['Grüße "\\\n\u2028\x00', "", None]),
    "raw": (pa.binary(), [b"\x00\xff", b"", None]),
    "day": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    "at": (
        pa.timestamp("us", "Europe/Berlin"),
        [
            datetime.datetime(2026, 11, 27, 22, 0, 0, 123_456, _BERLIN),
            datetime.datetime(1600, 1, 1, tzinfo=datetime.timezone.utc),
            None,
        ],
    ),
    "local": (
        pa.timestamp("us"),
        [datetime.datetime(2026, 11, 27, 22, 0, 0, 1), datetime.datetime(9999, 12, 31), None],
    ),
    "clock": (pa.time64("ns"), [datetime.time(23, 59, 59, 999_999), datetime.time(0), None]),
    "gap": (
        pa.duration("us"),
        [datetime.timedelta(microseconds=-1), datetime.timedelta(days=400), None],
    ),
    "items": (
        pa.list_(pa.struct({"sku": pa.string(), "count": pa.int32()})),
        [[{"sku": "a", "count": 1}, None], [], None],
    ),
    "tags": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], None]),
    "pair": (
        pa.struct({"left": pa.list_(pa.int8()), "right": pa.decimal128(4, 2)}),
        [{"left": [1, None], "right": Decimal("1.25")}, {"left": None, "right": None}, None],
    ),
}
EVERY_TYPE = pa.RecordBatch.from_pydict(
    {name: values for name, (_, values) in _EVERY.items()},
    schema=pa.schema({name: kind for name, (kind, _) in _EVERY.items()}),
)


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def stream_of(
    *batches: pa.RecordBatch, schema: pa.Schema | None = None, **options: object
) -> bytes:
    """An Arrow IPC stream, as Arrow writes it."""
    sink = pa.BufferOutputStream()
    chosen = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=chosen) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def arrow_pack(stream: bytes, size: int | None = None) -> bytes:
    """A pack of the format `arrow` with this stream in it, which says that it has `size` bytes."""
    size = len(stream) if size is None else size
    return MAGIC + struct.pack("<Q", size) + pa.compress(stream, codec="zstd", asbytes=True)


def json_pack(*lines: str | bytes) -> bytes:
    """A pack of the format `json` with these lines."""
    texts = (line if isinstance(line, bytes) else line.encode() for line in lines)
    return gzip.compress(b"".join(text + b"\n" for text in texts), mtime=0)
