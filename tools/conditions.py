"""Write the list of conditions into docs/troubleshooting.md, between its two markers.

python tools/conditions.py docs/troubleshooting.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark_azqueue.conditions import Condition

BEGIN = "<!-- The list of spark_azqueue/conditions.py, written by `make docs`; do not edit. -->\n"
END = "<!-- the end of the list -->\n"


def filled(page: str) -> str:
    """The text of the page with the list as the conditions are now.

    Raises ValueError for a page without the markers.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError("the markers of the list of conditions are missing")
    lines = ["", "| condition | what to do |", "|---|---|", *map(_row, Condition), ""]
    return before + begin + "\n".join(lines) + "\n" + end + after


def _row(condition: Condition) -> str:
    remedy = condition.remedy.replace("<", "&lt;")
    return f"| [`{condition.id}`](#{condition.section}) | {remedy} |"


def main(pages: list[str]) -> int:
    """Renew the pages. Returns the exit status."""
    for page in map(Path, pages):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
