"""Bodies that ask a reader for more than they are, or that no reader should believe; by name.

`python hostile_packs.py CASES [SEED]` opens each of them and CASES mutated packs, each hostile body
in a process of its own, and prints counts and peak memory.
"""

from __future__ import annotations

import base64
import collections
import gzip
import json
import os
import random
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from packed import EVERY_TYPE, arrow_pack, json_pack, stream_of
from shared_tables import END, shared_batch_metadata, shared_schema

from spark_azqueue.rows.packing.arrow_format import MAGIC, ArrowFormat
from spark_azqueue.rows.packing.bodies import FORMATS, rows_of
from spark_azqueue.rows.packing.bounds import CorruptPack, PackBounds

_EMPTY = pa.struct([])
Hostile = tuple[Callable[[], bytes], pa.Schema]


def _batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def _list_of(length: int, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), values)


def _empty_structs(length: int) -> pa.Array:
    return pa.Array.from_buffers(_EMPTY, length, [None])


def _same_bytes_sixteen_times() -> bytes:
    """Sixteen columns of text whose data is one and the same buffer of 4 MiB."""
    most = 4 * 2**20
    batch = _batch(**{f"c{n}": pa.array(["x" * most]) for n in range(16)})
    stream = bytearray(stream_of(batch))
    (size,) = struct.unpack_from("<I", stream, 4)
    second = 8 + size
    (meta,) = struct.unpack_from("<I", stream, second + 4)
    body = second + 8 + meta
    head = bytes(stream[second : second + 8 + meta])
    first = stream.index(b"x" * 64, body) - body
    for number in range(1, 16):
        start = number * (first + most)
        for offset, length in ((0, 0), (0, first), (first, most)):
            named = struct.pack("<qq", start + offset, length)
            head = head.replace(named, struct.pack("<qq", offset, length))
    kept = first + most
    head = head.replace(struct.pack("<q", len(stream) - 8 - body), struct.pack("<q", kept))
    return bytes(stream[:second]) + head + bytes(stream[body : body + kept]) + bytes(stream[-8:])


def _scale_of_millions() -> bytes:
    batch = _batch(n=pa.array([1], pa.decimal128(38, 37)))
    stream = stream_of(batch)
    return stream.replace(struct.pack("<i", 37), struct.pack("<i", 100_663_298), 1)


def _announcing(rows: pa.RecordBatch, count: int) -> bytes:
    """The stream of 12,345 rows, which says that there are `count`."""
    return stream_of(rows).replace(struct.pack("<q", 12_345), struct.pack("<q", count))


def _two_members() -> bytes:
    return gzip.compress(b'{"n":1}\n') + gzip.compress(b"\0" * (64 * 2**20))


def _extension(kind: str = "arrow.opaque", size: int = 900_000) -> dict[str, str]:
    """What Arrow takes for the parameters of an extension type: its parser of JSON recurses."""
    return {"ARROW:extension:name": kind, "ARROW:extension:metadata": "[" * size}


def _with_extension(kind: pa.DataType) -> bytes:
    """A stream without rows, whose innermost fields are of extension types."""
    return stream_of(schema=pa.schema([_marked(pa.field("n", kind), _extension())]))


def _marked(field: pa.Field, metadata: dict[str, str]) -> pa.Field:
    """The field, whose innermost fields (or else the field) have this metadata."""
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_marked(each, metadata) for each in kind]))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(kind.key_field, _marked(kind.item_field, metadata)))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_marked(kind.value_field, metadata)))
    return field.with_metadata(metadata)


INT = pa.schema({"n": pa.int64()})
ARROW: dict[str, Hostile] = {
    "compressed inside": (
        lambda: stream_of(_batch(n=pa.array([0] * 10**6 * 4)), compression="zstd"),
        INT,
    ),
    "list of nulls": (
        lambda: stream_of(_batch(n=_list_of(2**31 - 1, pa.nulls(2**31 - 1)))),
        pa.schema({"n": pa.list_(pa.int64())}),
    ),
    "list of empty structs": (
        lambda: stream_of(_batch(n=_list_of(2**31 - 1, _empty_structs(2**31 - 1)))),
        pa.schema({"n": pa.list_(pa.struct({"a": pa.string()}))}),
    ),
    "small numbers asked as large ones": (
        lambda: stream_of(_batch(n=_list_of(2**22 * 3, pa.array(bytes(2**22 * 3), pa.int8())))),
        pa.schema({"n": pa.list_(pa.decimal128(38, 0))}),
    ),
    "dictionary": (lambda: stream_of(_batch(n=pa.array(["a"]).dictionary_encode())), INT),
    "run ends": (
        lambda: stream_of(_batch(n=pa.RunEndEncodedArray.from_arrays([2**31 - 1], [1])[:9])),
        INT,
    ),
    "same bytes sixteen times": (
        _same_bytes_sixteen_times,
        pa.schema({f"c{n}": pa.string() for n in range(16)}),
    ),
    "rows of nothing": (lambda: _announcing(_batch(n=pa.nulls(12_345)), 2**40), INT),
    "rows without columns": (
        lambda: _announcing(pa.RecordBatch.from_struct_array(_empty_structs(12_345)), 2**40),
        INT,
    ),
    "rows that are not there": (
        lambda: _announcing(_batch(n=pa.array(range(12_345))), 90_000),
        INT,
    ),
    "scale of millions": (_scale_of_millions, pa.schema({"n": pa.decimal128(38, 37)})),
    "no end mark": (lambda: stream_of(_batch(n=pa.array([1])))[:-8], INT),
    "bytes behind the end": (lambda: stream_of(_batch(n=pa.array([1]))) + bytes(8), INT),
    "only an end": (lambda: struct.pack("<II", 0xFFFFFFFF, 0), INT),
    "wide schema": (
        lambda: stream_of(_batch(**{f"c{n}": pa.array([1]) for n in range(20_000)})),
        INT,
    ),
    "fields of one name": (lambda: shared_schema([20_000], b"n" * 20_000), INT),
    "fields of one table": (lambda: shared_schema([200_000]), INT),
    "structs of one table": (lambda: shared_schema([190, 190, 190]), INT),
    "structs of one long name": (lambda: shared_schema([2, 2, 2, 2], b"n" * 900_000), INT),
    "metadata of one text": (lambda: shared_schema([1], b"n" * 20_000, pairs=20_000), INT),
    "metadata of a batch": (
        lambda: shared_batch_metadata(shared_schema([1])[: -len(END)], 20_000, b"n" * 20_000),
        INT,
    ),
    "many batches": (lambda: stream_of(*[_batch(n=pa.array([], pa.int64()))] * 5_000), INT),
    "extension": (
        lambda: stream_of(
            schema=pa.schema([_marked(pa.field("n", pa.binary(16)), _extension("arrow.uuid", 0))])
        ),
        pa.schema({"n": pa.binary()}),
    ),
    "deep extension": (lambda: _with_extension(pa.int64()), INT),
    "deep extension inside": (
        lambda: _with_extension(pa.list_(pa.struct({"m": pa.map_("string", "int64")}))),
        INT,
    ),
    "deep extension of a dictionary": (
        lambda: _with_extension(pa.dictionary(pa.int8(), pa.string())),
        INT,
    ),
    "equal keys": (
        lambda: stream_of(_batch(n=pa.array([[("a", 1), ("a", 2)]], pa.map_("string", "int64")))),
        pa.schema({"n": pa.map_(pa.string(), pa.int64())}),
    ),
    "year 300,000": (
        lambda: stream_of(_batch(n=pa.array([2**63 - 1], pa.timestamp("us", "UTC")))),
        pa.schema({"n": pa.timestamp("us", "UTC")}),
    ),
}
if hasattr(pa, "string_view"):  # since pyarrow 16
    ARROW["view"] = (
        lambda: stream_of(_batch(n=pa.array(["a"], pa.string_view()))),
        pa.schema({"n": pa.string()}),
    )
_DEEP = b'{"n":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
JSON: dict[str, Hostile] = {
    "gzip of 128 MiB": (lambda: gzip.compress(b"\0" * 2**27, 1), INT),
    "second member": (_two_members, INT),
    "gzip cut": (lambda: json_pack('{"n":1}')[:-9], INT),
    "not gzip behind": (lambda: json_pack('{"n":1}') + b"x", INT),
    "thousands of members": (lambda: gzip.compress(b"") * 2_000 + json_pack("[]"), INT),
    "a member of nothing, again and again": (
        lambda: gzip.compress(b"") * 400_000 + json_pack('{"n":1}'),
        INT,
    ),
    "too many lines": (lambda: json_pack(*['{"n":1}'] * 100_001), INT),
    "empty lines": (lambda: gzip.compress(b"\n" * 2**23), INT),
    "deep": (lambda: json_pack(_DEEP), INT),
    "deep, not asked for": (lambda: json_pack(b'{"n":1,"m":' + _DEEP + b"}"), INT),
    "millions of values": (lambda: json_pack('{"m":[' + "{},[]," * 2_000_000 + "0]}"), INT),
    "as many values as a row may have": (
        lambda: json_pack('{"m":[' + "{}," * 124_000 + "0]}"),
        INT,
    ),
    "equal names": (lambda: json_pack('{"n":1,"n":2}'), INT),
    "equal names, inside": (lambda: json_pack('{"n":1,"m":{"a":1,"a":2}}'), INT),
    "equal but for capitals": (lambda: json_pack('{"n":1,"N":2}'), INT),
    "1e400": (lambda: json_pack('{"n":1e400}'), pa.schema({"n": pa.float64()})),
    "1e99999999 as whole": (lambda: json_pack('{"n":1e99999999}'), INT),
    "1e99999999 as decimal": (
        lambda: json_pack('{"n":1e99999999}'),
        pa.schema({"n": pa.decimal128(38, 10)}),
    ),
    "exponent without end": (
        lambda: json_pack('{"n":1e' + "9" * 3_000 + "}"),
        pa.schema({"n": pa.decimal128(38, 10)}),
    ),
    "digits": (lambda: json_pack('{"n":' + "9" * 5_000 + "}"), INT),
    "megabytes of digits": (lambda: json_pack('{"n":0.' + "9" * 10**7 + "}"), INT),
    "lone surrogate": (lambda: json_pack('{"n":"\\ud800"}'), pa.schema({"n": pa.string()})),
    "not UTF-8": (lambda: json_pack(b'{"n":"\xff"}'), pa.schema({"n": pa.string()})),
    "NaN": (lambda: json_pack('{"n":NaN}'), pa.schema({"n": pa.float64()})),
    "no object": (lambda: json_pack("[1]"), INT),
    "none of the columns": (lambda: json_pack('{"m":1}'), INT),
}


def hostile() -> Iterator[tuple[str, bytes, pa.Schema]]:
    """Each by name, as the bytes of a body, with the schema that it is opened with."""
    for name, (made, wanted) in ARROW.items():
        yield name, arrow_pack(made()), wanted
    stream = stream_of(_batch(n=pa.array([1])))
    yield "says it is larger", arrow_pack(stream, len(stream) + 1), INT
    yield "says it is smaller", arrow_pack(stream, len(stream) - 1), INT
    yield "says it is 2^63 bytes", arrow_pack(stream, 2**63), INT
    yield "ends in its header", MAGIC + b"\0\0", INT
    for name, (made, wanted) in JSON.items():
        yield name, made(), wanted


_IN_PLACE = (0, 1, 4, 5)


def mutated(random_: random.Random, data: bytes, *, in_place: bool = False) -> bytes:
    """The bytes with some of them changed; not in_place: also left out or doubled."""
    changed = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 4, 16))):
        place = random_.randrange(len(changed)) if changed else 0
        way = random_.choice(_IN_PLACE if in_place else range(6))
        if way == 0 and changed:
            changed[place] = random_.randrange(256)
        elif way == 1 and changed:
            changed[place] ^= 1 << random_.randrange(8)
        elif way == 2:
            del changed[place : place + random_.randrange(1, 9)]
        elif way == 3:
            changed[place:place] = changed[place : place + random_.randrange(1, 9)]
        elif way == 4 and len(changed) >= place + 8:
            struct.pack_into(
                "<q", changed, place, random_.choice((-1, 0, 1, 2**31, 2**40, 2**63 - 1))
            )
        elif way == 5 and len(changed) >= place + 4:
            struct.pack_into("<i", changed, place, random_.choice((-1, 0, 1, 7, 2**20, 2**31 - 1)))
    return bytes(changed)


def fuzzed(random_: random.Random, rows: pa.RecordBatch) -> bytes:
    """A pack that is damaged: as a whole, or inside, where no check sum guards it."""
    way = random_.randrange(4)
    name = random_.choice(tuple(FORMATS))
    if way == 0:
        chosen = FORMATS[name]
        return mutated(random_, chosen.packed(chosen.prepared(rows)))
    if name == "arrow" and random_.random() < 0.1:
        return arrow_pack(mutated(random_, _with_metadata(random_, rows), in_place=True))
    if name == "arrow":
        # Behind a cut nothing is looked at: messages are not where they were.
        in_place = random_.random() < 0.8
        stream = mutated(random_, stream_of(ArrowFormat.prepared(rows)), in_place=in_place)
        return arrow_pack(stream) if stream else b""
    lines = FORMATS["json"].prepared(rows)
    return gzip.compress(mutated(random_, b"\n".join(lines)), 1)


def _with_metadata(random_: random.Random, rows: pa.RecordBatch) -> bytes:
    """A stream with large metadata: of a field, of what is in it, or of the schema."""
    prepared = ArrowFormat.prepared(rows)
    schema, size = prepared.schema, random_.choice((10, 1_000, 100_000, 900_000))
    text = random_.choice(("[", '{"a":', "\0", "é")) * (size // 5)
    kind = random_.choice(("arrow.opaque", "arrow.fixed_shape_tensor", "arrow.json", "other"))
    metadata = random_.choice(({"note": text}, _extension(kind, size), {text: ""}))
    place = random_.randrange(len(schema) + 1)
    if place == len(schema):
        return stream_of(prepared, schema=schema.with_metadata(metadata))
    return stream_of(prepared, schema=schema.set(place, _marked(schema.field(place), metadata)))


def opened(data: bytes, wanted: pa.Schema, *, as_text: bool = False) -> str:
    """What becomes of a body: "rows", or the first words of why not. Anything else is raised."""
    try:
        body = base64.b64encode(data).decode() if as_text else data
        batches = rows_of(body, wanted, PackBounds())
    except CorruptPack as error:
        return str(error)
    for batch in batches:
        assert batch.schema == wanted
        batch.validate(full=True)
        batch.to_pylist()
    return "rows"


def _in_child(data: bytes, wanted: pa.Schema) -> tuple[str, float, float]:
    """What becomes of a body in a process of its own, the memory it takes (MiB), and seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        # A child's peak begins with what it shares with its parent.
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        outcome = opened(data, wanted)
        spent = time.perf_counter() - start
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_024
        os.write(writer, json.dumps([outcome[:90], more, spent]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if status or not answer:
        return f"DIED with {status}", 0, 0
    outcome, more, spent = json.loads(answer)
    return outcome, more, spent


def main(cases: int, seed: int) -> None:
    for name, data, wanted in hostile():
        outcome, more, spent = _in_child(data, wanted)
        print(f"{name:35} {len(data):>9,} bytes {more:7.1f} MiB {spent:6.2f} s  {outcome}")
    random_ = random.Random(seed)
    counts: collections.Counter[str] = collections.Counter()
    wanted = ArrowFormat.prepared(EVERY_TYPE).schema
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    slowest = 0.0
    for _ in range(cases):
        data = fuzzed(random_, EVERY_TYPE)
        began = time.perf_counter()
        counts[opened(data, wanted).partition("'")[0][:60]] += 1
        slowest = max(slowest, time.perf_counter() - began)
    spent = time.perf_counter() - start
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_024
    print(f"{cases:,} cases, seed {seed}, {spent:.0f} s, slowest {slowest:.2f} s, +{more:.1f} MiB")
    for outcome, count in counts.most_common():
        print(f"{count:>8,}  {outcome}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
