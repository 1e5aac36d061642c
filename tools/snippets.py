"""Copy code from scripts into pages: each block of a page below `<!-- from examples/… -->`.

    python tools/snippets.py docs/cookbook.md

A script marks what goes into the page with the lines `# [recipe]` and `# [end]`; without them all
of it goes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

_BLOCK = re.compile(
    r"^(<!-- from (?P<path>\S+) -->\n\n?```(?P<kind>\w+)\n)(?:.*?\n)??(```)$", re.DOTALL | re.M
)
_RECIPE = re.compile(r"^# \[recipe\]\n(.*?)^# \[end\]$", re.DOTALL | re.MULTILINE)


def filled(page: str, repository: Path = REPOSITORY) -> str:
    """The text of a page with its blocks as the scripts are now.

    Raises ValueError for a marker without a script or without a block.
    """
    text, count = _BLOCK.subn(
        lambda found: found[1] + _code(repository / found["path"]) + found[4], page
    )
    if count != page.count("<!-- from "):
        raise ValueError("a line <!-- from … --> is not followed by a block of code")
    return text


def _code(script: Path) -> str:
    if not script.is_file():
        raise ValueError(f"a page takes code from {script}, which does not exist")
    text = script.read_text(encoding="utf-8")
    marked = _RECIPE.search(text)
    return (marked[1] if marked else text).strip("\n") + "\n"


def main(pages: list[str]) -> int:
    """Renew the pages. Returns the exit status."""
    for page in map(Path, pages):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
