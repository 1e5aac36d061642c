"""Displays a packed message in commands: its format and, if requested, its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_azqueue.errors import InvalidRow
from spark_azqueue.service.redaction import shown

from .filters import Body

_MARKS = ("azqpack", "H4sI", "YXpxcGFja", "SDRzS")
"""Beginnings of packs as text, and as text that is encoded once more in base64. For texts with
other beginnings, pyarrow need not be imported.
"""

_ROWS_SHOWN = 10
_ROW_SHOWN = 400
_ROW_WHOLE = 2**20


def pack_fields(text: str, body: Body, *, rows: bool) -> dict[str, Any] | None:
    """Return the format and size of a packed message for the JSON output; None if the message is
    not packed. text: stored text.

    rows: True to include the rows. Each row is a string of JSON, so that no digit of a number is
    lost.
    """
    stored = body.envelope.body if body.envelope else text
    if not stored.startswith(_MARKS):
        return None
    from spark_azqueue.rows.packing.bounds import CorruptPack
    from spark_azqueue.rows.packing.splitting import stored_pack

    pack = stored_pack(stored)
    if pack is None:
        return None
    fields = pack.about()
    if rows and "rows" in fields:
        try:
            fields["lines"] = pack.lines()
        except (CorruptPack, InvalidRow) as error:
            fields["error"] = error.sentence if isinstance(error, InvalidRow) else str(error)
    return fields


def rows_of_pack(stored: str) -> Sequence[str] | None:
    """Return the rows in a stored text as JSON; () if the text is not a pack; None if the pack
    cannot be opened.
    """
    if not stored.startswith(_MARKS):
        return ()
    from spark_azqueue.rows.packing.bounds import CorruptPack
    from spark_azqueue.rows.packing.splitting import stored_pack

    pack = stored_pack(stored)
    try:
        return pack.lines() if pack else ()
    except (CorruptPack, InvalidRow):
        return None


def pack_lines(fields: dict[str, Any], *, is_whole: bool) -> list[str]:
    """Return the fields as lines to print. fields: result of `pack_fields`. is_whole: True to
    return rows uncut.
    """
    if fields["format"] == "unknown":
        return [f"packed rows of version '{shown(fields['version'], 8)}', which is not known"]
    rows = f": {fields['rows']:,} rows" if "rows" in fields else ""
    head = f"packed, {fields['format']}{rows}, {fields['bytes']:,} bytes before base64"
    if "error" in fields:
        head += f"; it cannot be opened: {shown(fields['error'], 400)}"
    lines = fields.get("lines", [])
    most = len(lines) if is_whole else _ROWS_SHOWN
    found = [shown(line, _ROW_WHOLE if is_whole else _ROW_SHOWN) for line in lines[:most]]
    if len(lines) > most:
        found.append(f"… and {len(lines) - most:,} more; --whole shows them")
    return [head, *found]
