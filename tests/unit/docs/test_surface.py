"""What users depend on is written down, and changes by a decision."""

from __future__ import annotations

import surface


def test_what_users_depend_on_is_as_it_is_written_down() -> None:
    written = surface.FILE.read_text(encoding="utf-8").splitlines()
    now = surface.surface().splitlines()
    gone, new = [*{*written} - {*now}], [*{*now} - {*written}]
    assert written == now, (
        f"the public surface changed: {gone} is gone or changed, {new} is new. If that is meant,"
        " run tools/surface.py; what is gone or changed needs a decision in docs/decisions, too"
    )
