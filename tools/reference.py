"""Write what the package declares into the docs: options, conditions, assumptions.

Run it as `python tools/reference.py`, or by `make docs`.
"""

from __future__ import annotations

from pathlib import Path

from spark_azqueue.conditions import Condition
from spark_azqueue.doctor.certify.assumptions import ASSUMPTIONS, Area, Assumption
from spark_azqueue.options.choices import Side
from spark_azqueue.options.parse import OPTIONS

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN = "<!-- The list of spark_azqueue/conditions.py, written by `make docs`; do not edit. -->\n"
BEGIN_ASSUMPTIONS = (
    "<!-- The tables of spark_azqueue/doctor/certify/assumptions.py, written by `make docs`; do not"
    " edit. -->\n"
)
END = "<!-- the end of the list -->\n"


def options_page() -> str:
    """What docs/options.md holds."""
    lines = [
        "# Options",
        "",
        "<!-- Generated from spark_azqueue/options by `make docs`; do not edit. -->",
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
        for option in (option for option in OPTIONS if option.side == side):
            name = f"`{option.name}`" + (" *(secret)*" if option.secret else "")
            lines.append(f"| {name} | {option.shown or 'unset'} | {option.doc} |")
    return "\n".join(lines) + "\n"


def with_conditions(page: str) -> str:
    """The text of the page with the list as the conditions are now.

    Raises ValueError for a page without the markers.
    """
    lines = ["", "| condition | what to do |", "|---|---|", *map(_row, Condition), ""]
    return _between(page, BEGIN, "\n".join(lines))


def with_assumptions(page: str) -> str:
    """The text of the page with the tables as the assumptions are now. Raises ValueError."""
    lines = []
    for area in Area:
        lines += ["", f"### {area.value}", ""]
        lines += ["| assumption | who relies on it | evidence | Azurite |", "|---|---|---|---|"]
        lines += [_assumption(each) for each in ASSUMPTIONS if each.area is area]
    return _between(page, BEGIN_ASSUMPTIONS, "\n".join([*lines, ""]))


def _assumption(each: Assumption) -> str:
    says = f"`{each.key}`: {each.says}"
    if each.untried:
        says += f" (not tried: {each.untried})"
    cells = (says, each.where, each.evidence, each.azurite or "the same")
    return f"| {' | '.join(cells)} |"


def _between(page: str, marker: str, text: str) -> str:
    before, begin, rest = page.partition(marker)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError("the markers of the list are missing")
    return before + begin + text + "\n" + end + after


def _row(condition: Condition) -> str:
    remedy = condition.remedy.replace("<", "&lt;")
    return f"| [`{condition.id}`](#{condition.section}) | {remedy} |"


def main() -> None:
    """Renew the pages."""
    (DOCS / "options.md").write_text(options_page(), encoding="utf-8")
    page = DOCS / "troubleshooting.md"
    page.write_text(with_conditions(page.read_text(encoding="utf-8")), encoding="utf-8")
    page = DOCS / "service.md"
    page.write_text(with_assumptions(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
