"""The source's report inside of offsets: Spark 4.0 and 4.1 do not ask a source for one.

Spark compares offsets as text, and another text is a new batch. So a report goes into a new offset
alone; what Spark has named, or was given, is returned as it was.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from .offset_columns import DamagedOffset
from .offsets import OffsetJson, offset_text, refusing_damage

REPORT = "report"
"""The last field of an offset. The consumers see offsets without it."""

_KEPT = 8
"""Only the newest offsets can be asked for again."""


class CarriedReports:
    """The reports of the newest offsets. Used by one thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Any] = OrderedDict()  # None for an offset without a report
        self._is_named = False

    def plain(self, offset: Mapping[str, Any]) -> OffsetJson:
        """An offset that Spark names, without its report. Raises CheckpointMismatch for damage."""
        self._is_named = True
        with refusing_damage():
            if not isinstance(offset, Mapping):
                raise DamagedOffset("it is not a JSON object")
            plain = {name: value for name, value in offset.items() if name != REPORT}
            report = offset.get(REPORT)
            try:
                offset_text({REPORT: report})  # it goes back to Spark as text
                digest = _digest(plain)
            except RecursionError:
                raise DamagedOffset("it is nested too deep") from None
        self._keep(digest, report)
        return plain

    def whole(self, offset: OffsetJson, report: Callable[[], Any]) -> OffsetJson:
        """An offset with its report. report: for a new one, None for none.

        Before Spark has named an offset in this run, nothing tells what is new.
        """
        digest = _digest(offset)
        if digest in self._known:
            found = self._known[digest]
        else:
            found = report() if self._is_named else None
        self._keep(digest, found)
        return offset if found is None else {**offset, REPORT: found}

    def _keep(self, digest: bytes, report: Any) -> None:
        self._known[digest] = report
        self._known.move_to_end(digest)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)


def _digest(plain: Mapping[str, Any]) -> bytes:
    return hashlib.blake2b(offset_text(plain).encode(), digest_size=16).digest()
