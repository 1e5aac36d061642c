"""The options reference, as Markdown: `make docs` writes it to docs/options.md."""

from __future__ import annotations

from collections.abc import Iterable

from .choices import Side
from .option import Option
from .parse import OPTIONS


def reference(options: Iterable[Option] = OPTIONS) -> str:
    """The options reference as Markdown (what `docs/options.md` holds)."""
    lines = [
        "# Options",
        "",
        "<!-- Generated from the tables in spark_azqueue/options by `make docs`; do not edit. -->",
        "",
        'Names are case-insensitive. Durations are seconds (`"90"`) or text (`"5 minutes"`);'
        ' sizes are bytes, or `"512k"`, `"32m"`, `"1g"`.',
        "An unknown option is an error, so a typing mistake cannot go unnoticed.",
        "The connector's errors never show values of options marked *secret*.",
    ]
    for side, title in (
        (Side.BOTH, "For source and sink"),
        (Side.SOURCE, "For the source"),
        (Side.SINK, "For the sink"),
    ):
        lines += ["", f"## {title}", "", "| option | default | meaning |", "|---|---|---|"]
        for option in (option for option in options if option.side == side):
            name = f"`{option.name}`" + (" *(secret)*" if option.secret else "")
            lines.append(f"| {name} | {option.shown or 'unset'} | {option.doc} |")
    return "\n".join(lines) + "\n"
