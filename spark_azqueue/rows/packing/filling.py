"""The work of the tasks of `pack`: packs rows into as few messages as possible."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from .bodies import FORMATS, FULL_BYTES, Format
from .bounds import LARGE_BYTES

_GROUPS_AT_MOST = 64
_HELD_AT_MOST = 64 * 2**20
_BODIES_IN_A_BATCH = 64
_NEARLY_FULL = 0.9
_ROWS_AT_FIRST = 64
_GUESSES = 8
"""Maximum number of guesses of how many rows fit into a message, based on the mean size of rows.
After these guesses, the number of rows is found by bisection, because the sizes of rows may differ
too much."""


class Filled(NamedTuple):
    """A message that contains the first `rows` waiting rows. data: bytes of the pack."""

    rows: int
    data: bytes


class Filling:
    """Rows of one route, in order, that wait until they fill a message."""

    def __init__(self, chosen: Format, max_rows: int) -> None:
        self._format = chosen
        self._max_rows = max_rows
        self._pieces: list[Any] = []
        self._rows = 0
        self.size = 0
        """Size of the waiting rows in bytes."""
        self._row_bytes = 0.0
        """Mean size of a packed row in the last message, in bytes; 0 if unknown."""

    def add(self, rows: Any) -> Iterator[Filled]:
        """Add rows. Yield the messages that are full."""
        self._pieces.append(rows)
        self._rows += len(rows)
        self.size += self._format.size(rows)
        while self._rows and self._is_enough():
            found = self._next(is_last=False)
            if found is None:
                return
            yield found

    def rest(self) -> Iterator[Filled]:
        """Yield messages until no row waits. The last message need not be full."""
        while self._rows:
            found = self._next(is_last=True)
            assert found is not None
            yield found

    def _is_enough(self) -> bool:
        if self._rows >= self._max_rows or self.size >= LARGE_BYTES:
            return True
        if not self._row_bytes:
            return self.size >= FULL_BYTES
        return self._rows * self._row_bytes >= FULL_BYTES

    def _next(self, *, is_last: bool) -> Filled | None:
        """Return the next message. Return None if the rows do not fill a message.

        is_last: True if no more rows will be added. In this case, the returned message need not be
        full.
        """
        rows = self._format.joined(self._pieces)
        count, data = self._filled(rows, self._limit(rows))
        self._row_bytes = len(data) / count
        has_all = count == self._rows < self._max_rows and self.size < LARGE_BYTES
        if not is_last and has_all and len(data) < _NEARLY_FULL * FULL_BYTES:
            self._pieces = [rows]
            return None
        kept = rows[count:]
        self._rows -= count
        self._pieces = [kept] if self._rows else []
        self.size = self._format.size(kept) if self._rows else 0
        return Filled(count, data)

    def _limit(self, rows: Any) -> int:
        """Return how many of the first rows readers can open together; at least one."""
        share = self._rows * LARGE_BYTES // max(1, self.size)
        limit = max(1, min(self._rows, self._max_rows, share))
        # The first rows may be larger than the other rows.
        while limit > 1 and self._format.size(rows[:limit]) > LARGE_BYTES:
            limit //= 2
        return limit

    def _filled(self, rows: Any, limit: int) -> tuple[int, bytes]:
        """Return how many of the first rows fit into a message (at least one), and the pack of
        these rows."""
        guess = int(FULL_BYTES / self._row_bytes * 0.98) if self._row_bytes else _ROWS_AT_FIRST
        count = max(1, min(limit, guess))
        best: tuple[int, bytes] | None = None
        too_many = limit + 1
        for attempt in range(32):
            data = self._format.packed(rows[:count])
            if len(data) > FULL_BYTES and count > 1:
                too_many = count
            elif best is None or count > best[0]:
                best = count, data
            fits = best[0] if best else 0
            if best and (fits + 1 >= too_many or len(best[1]) >= _NEARLY_FULL * FULL_BYTES):
                return best
            likely = int(count * FULL_BYTES / len(data) * 0.97)
            if attempt >= _GUESSES:
                likely = (fits + too_many) // 2
            count = max(fits + 1, min(too_many - 1, likely))
        assert best is not None
        return best


@dataclass(frozen=True, slots=True)
class PackWork:
    """The work of one task of `pack`. Spark sends this object to the tasks.

    names: names of the columns to pack. In a batch, these columns come first, under other names,
    and the columns of the route follow. is_text: True if bodies are base64 strings, False if they
    are binary.
    """

    format: str
    is_text: bool
    names: tuple[str, ...]
    max_rows: int

    def on(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield messages with `body` and the columns of the route. Raises InvalidRow."""
        groups: dict[tuple[Any, ...], _Group] = {}
        out = _Out(self.is_text)
        for batch in batches:
            for key, rows in self._by_route(batch):
                group = groups.get(key)
                if group is None:
                    group = groups[key] = _Group(self._route(rows), self._filling())
                for _, data in group.filling.add(self._prepared(rows)):
                    yield from out.add(data, group.route)
                while _is_too_much(groups):
                    largest = max(groups, key=lambda each: groups[each].filling.size)
                    closed = groups.pop(largest)
                    for _, data in closed.filling.rest():
                        yield from out.add(data, closed.route)
            yield from out.rest()
        for group in groups.values():
            for _, data in group.filling.rest():
                yield from out.add(data, group.route)
        yield from out.rest()

    def _filling(self) -> Filling:
        return Filling(FORMATS[self.format], self.max_rows)

    def _prepared(self, rows: pa.RecordBatch) -> Any:
        count = len(self.names)
        fields = [
            field.with_name(name) for field, name in zip(rows.schema, self.names, strict=False)
        ]
        own = pa.RecordBatch.from_arrays(rows.columns[:count], schema=pa.schema(fields))
        return FORMATS[self.format].prepared(own)

    def _route(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.select(list(range(len(self.names), rows.num_columns))).take(pa.array([0]))

    def _by_route(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
        route = batch.columns[len(self.names) :]
        if not route:
            if batch.num_rows:
                yield (), batch
            return
        places: dict[tuple[Any, ...], list[int]] = {}
        plain = [
            each.view(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in route
        ]
        for place, key in enumerate(zip(*(each.to_pylist() for each in plain), strict=True)):
            places.setdefault(key, []).append(place)
        for key, chosen in places.items():
            yield key, batch if len(places) == 1 else batch.take(pa.array(chosen, pa.int64()))


@dataclass(frozen=True, slots=True)
class _Group:
    """Waiting rows of one route. route: one row that has only the columns of the route."""

    route: pa.RecordBatch
    filling: Filling


def _is_too_much(groups: dict[tuple[Any, ...], _Group]) -> bool:
    if len(groups) > _GROUPS_AT_MOST:
        return True
    return sum(group.filling.size for group in groups.values()) > _HELD_AT_MOST


class _Out:
    """Messages that the task will yield in one record batch."""

    def __init__(self, is_text: bool) -> None:
        self._is_text = is_text
        self._bodies: list[str | bytes] = []
        self._routes: list[pa.RecordBatch] = []

    def add(self, data: bytes, route: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._bodies.append(base64.b64encode(data).decode() if self._is_text else data)
        self._routes.append(route)
        if len(self._bodies) >= _BODIES_IN_A_BATCH:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        if not self._bodies:
            return
        bodies = pa.array(self._bodies, pa.string() if self._is_text else pa.binary())
        columns: list[pa.Array] = [bodies]
        names = ["body"]
        for place, field in enumerate(self._routes[0].schema):
            columns.append(pa.concat_arrays([route.column(place) for route in self._routes]))
            names.append(field.name)
        self._bodies, self._routes = [], []
        yield pa.RecordBatch.from_arrays(columns, names=names)
