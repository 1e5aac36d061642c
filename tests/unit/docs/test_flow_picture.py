"""The picture of the first page, and the text for who does not see it."""

from __future__ import annotations

import re
from pathlib import Path

from flow_picture import BATCH, LEASES, POISON, QUEUE, TABLE, draw
from site_pages import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
((ALT, PATH),) = re.findall(r"^!\[([^]]+)\]\((docs/[^)]+)\)$", README, re.MULTILINE)


def test_the_text_in_its_place_names_the_steps_in_their_order() -> None:
    said = ALT.lower()
    steps = [said.index(box.name.split()[0]) for box in (QUEUE, LEASES, BATCH, TABLE, POISON)]

    assert steps == sorted(steps)
    assert "deleted only after the commit" in ALT


def test_it_is_a_png_of_a_readable_size_that_the_tool_draws(tmp_path: Path) -> None:
    draw(tmp_path / "flow.png")

    for path in (REPOSITORY / PATH, tmp_path / "flow.png"):
        head = path.read_bytes()[:24]
        width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
        assert head.startswith(b"\x89PNG")
        assert 1000 <= width <= 2000
        assert height < width / 2
