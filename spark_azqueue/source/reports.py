"""Reports of the source as part of its offsets, because Spark 4.0 and 4.1 do not request reports.

Spark compares offsets as text, and starts a batch if the text has changed. So a report is added
only to an offset that Spark does not have yet. If Spark already has an offset, the offset is
returned unchanged.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from .offset_columns import DamagedOffset
from .offsets import OffsetJson, offset_text, refusing_damage

REPORT = "report"
"""Name of the field with the report, which is the last field of an offset. Consumers get offsets
without this field."""

_KEPT = 8
"""Number of offsets whose reports are kept. Spark passes only its newest offsets again."""


class CarriedReports:
    """The reports of the newest offsets. Used by one thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Any] = OrderedDict()  # None for an offset without a report
        self._is_named = False

    def plain(self, offset: Mapping[str, Any]) -> OffsetJson:
        """Return an offset of Spark without its report.

        Raises CheckpointMismatch if it is damaged.
        """
        self._is_named = True
        with refusing_damage():
            if not isinstance(offset, Mapping):
                raise DamagedOffset("it is not a JSON object")
            plain = {name: value for name, value in offset.items() if name != REPORT}
            report = offset.get(REPORT)
            try:
                offset_text({REPORT: report})  # Spark must get the same report again, as text
                digest = _digest(plain)
            except RecursionError:
                raise DamagedOffset("it is nested too deep") from None
        self._keep(digest, report)
        return plain

    def whole(self, offset: OffsetJson, report: Callable[[], Any]) -> OffsetJson:
        """Return an offset with its report.

        Until Spark has passed an offset in this run, no report is added, because Spark may already
        have the offset from an earlier run.

        report: called to make the report of an offset that Spark does not have yet; may return
        None.
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
