"""Docstrings as Markdown: paragraphs, arguments, tables and code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

_RULE = re.compile(r"=+(?:  =+)+\s*")
_ARGUMENTS = re.compile(r"(?:^|(?<=[.;] ))`?(\w+)`?((?:, `?\w+`?)*): ")


def markdown(doc: str, arguments: Set[str]) -> str:
    """The text of a docstring as Markdown.

    arguments: the names of the parameters. A paragraph that begins with one and a colon becomes a
    list, with an item for each that it tells of. A block that is indented as a whole is code.
    Tables are those of reStructuredText ("simple tables"); their first row is the head.
    """
    return "\n\n".join(_block(block, arguments) for block in _blocks(doc))


def _blocks(doc: str) -> Iterator[list[str]]:
    """The blocks between empty lines."""
    block: list[str] = []
    for line in [*doc.split("\n"), ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def _block(lines: list[str], arguments: Set[str]) -> str:
    if _RULE.fullmatch(lines[0]):
        return _table(lines)
    if all(line.startswith("    ") for line in lines):
        return "\n".join(["```py", *(line[4:] for line in lines), "```"])
    return _paragraph(" ".join(line.strip() for line in lines), arguments)


def _paragraph(text: str, arguments: Set[str]) -> str:
    found = [each for each in _ARGUMENTS.finditer(text) if arguments.issuperset(_names(each))]
    if not found or found[0].start():
        return _escaped(text)
    ends = [*(each.start() for each in found[1:]), len(text)]
    items = zip(found, ends, strict=True)
    return "\n".join(
        f"- {', '.join(f'`{name}`' for name in _names(each))}:"
        f" {_escaped(text[each.end() : end].rstrip(' ;'))}"
        for each, end in items
    )


def _names(found: re.Match[str]) -> list[str]:
    return re.findall(r"\w+", found[1] + found[2])


def _escaped(text: str) -> str:
    """The text with each `<` outside of code as an entity."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _table(lines: list[str]) -> str:
    """A simple table. A row without a first cell goes on with the row above it."""
    starts = [found.start() for found in re.finditer(r"=+", lines[0])]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in lines:
        if _RULE.fullmatch(line):
            continue
        cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
    shown = [
        "| " + " | ".join(_escaped(cell).replace("|", "\\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join([shown[0], "|" + "---|" * len(starts), *shown[1:]])
