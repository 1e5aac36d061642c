"""Write what is declared once into the pages: options, Python API, conditions, the address, …

Run it as `python tools/reference.py`, or by `make docs`.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Sequence
from pathlib import Path

from api_page import api_page
from option_groups import grouped

from spark_azqueue.commands.certify.assumptions import ASSUMPTIONS, Area, Assumption
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.errors.explanation import SYMPTOMS
from spark_azqueue.options.account import ACCOUNT_OPTIONS
from spark_azqueue.options.choices import Side
from spark_azqueue.options.of_commands import COMMANDS, ROWS, Use, use_of
from spark_azqueue.options.option import Option

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NAME_THE_REPOSITORY = (
    "README.md",
    "docs/quickstart.md",
    "mkdocs.yml",
    "CITATION.cff",
    "deploy/conda/recipe.yaml",
)
"""Files that say where the repository is."""
BEGIN = (
    "<!-- The tables of spark_azqueue/errors/conditions.py and explanation.py, written by"
    " `make docs`; do not edit. -->\n"
)
BEGIN_ASSUMPTIONS = (
    "<!-- The tables of spark_azqueue/commands/certify/assumptions.py, written by `make docs`; do"
    " not edit. -->\n"
)
BEGIN_COMMANDS = (
    "<!-- The table of spark_azqueue/options/of_commands.py, written by `make docs`; do not edit."
    " -->\n"
)
END = "<!-- the end of the list -->\n"


def options_page() -> str:
    """What docs/options.md holds: the options by task, each under a heading of its own."""
    lines = [
        "# Options",
        "",
        "<!-- Generated from spark_azqueue/options by `make docs`; do not edit. -->",
        "",
        "For anyone who writes a query: every option, what it means, what it takes, and what it is"
        " unless you set it. The table leads to each.",
        "",
        'Names are case-insensitive. Durations are seconds (`"90"`) or text (`"5 minutes"`);'
        ' sizes are bytes, or `"512k"`, `"32m"`, `"1g"`.',
        "An unknown option is an error, so a typing mistake cannot go unnoticed.",
        "The connector's errors never show values of options marked *secret*.",
        "",
        "| task | options |",
        "|---|---|",
    ]
    groups = grouped()
    for title, options in groups.items():
        names = ", ".join(f"[`{each.name}`](#{_anchor(each.name)})" for each in options)
        lines.append(f"| [{title}](#{_anchor(title)}) | {names} |")
    for title, options in groups.items():
        lines += ["", f"## {title}"]
        for each in options:
            lines += ["", f"### `{each.name}`", "", _facts(each), "", each.doc]
    return "\n".join(lines) + "\n"


_SIDES = {Side.BOTH: "Source and sink", Side.SOURCE: "Source", Side.SINK: "Sink"}


def _facts(option: Option) -> str:
    secret = " Secret." if option.secret else ""
    return f"*{_SIDES[option.side]}. Default: {option.shown or 'unset'}.{secret}*"


def _anchor(heading: str) -> str:
    """The name by which GitHub and the site link to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def with_conditions(page: str) -> str:
    """The text of the page with the tables as the conditions and symptoms are now.

    Raises ValueError for a page without the markers.
    """
    lines = []
    for area in dict.fromkeys(each.area for each in Condition):
        lines += ["", f"### {area}", ""]
        lines += ["| condition | what happened | what to do |", "|---|---|---|"]
        lines += [
            f'| <a id="{each.anchor}"></a>`{each.id}` | {each.means} | {_cell(each.remedy)} |'
            for each in Condition
            if each.area == area
        ]
    lines += ["", "## Errors of Spark", ""]
    lines += ["| error | what happened | what to do |", "|---|---|---|"]
    lines += [f"| `{each.name}` | {each.sentence} | {_cell(each.remedy)} |" for each in SYMPTOMS]
    return _between(page, BEGIN, "\n".join([*lines, ""]))


def _cell(text: str) -> str:
    """A remedy in a table, with links to the pages that it names."""
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text).replace("<", "&lt;").replace("|", "\\|")


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


def with_command_options(page: str) -> str:
    """The text of the page with the table of commands and options as it is now. Raises ValueError.

    A command that is in no column has no use for the option.
    """
    lines = ["", "| option | commands |", "|---|---|"]
    for row in ROWS:
        names = ", ".join(f"`{name}`" for name in row.options)
        if row.options[0] == ACCOUNT_OPTIONS[0].name:
            names = "account and credential"
        by = {
            use: [command for command in COMMANDS if use_of(command, row.options[0]) is use]
            for use in Use
        }
        said = [
            f"{use.value} {_commands(by[use])}" for use in Use if by[use] and use is not Use.IDLE
        ]
        lines.append(f"| {names} | {'; '.join(said)} |")
    return _between(page, BEGIN_COMMANDS, "\n".join([*lines, ""]))


def _commands(names: Sequence[str]) -> str:
    return "all" if len(names) == len(COMMANDS) else f"`{', '.join(names)}`"


def _between(page: str, marker: str, text: str) -> str:
    before, begin, rest = page.partition(marker)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError("the markers of the list are missing")
    return before + begin + text + "\n" + end + after


def repository_url() -> str:
    """Where the repository is: `url` of setup.cfg."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config["metadata"]["url"]


def with_repository(text: str, url: str) -> str:
    """The text with the address where it says what to clone, or a setting names it."""
    return re.sub(
        r"(?m)(\bgit clone |^repo_url: |^repository-code: |^  repository: )\S+",
        rf"\g<1>{url}",
        text,
    )


def main() -> None:
    """Renew the pages."""
    for name in NAME_THE_REPOSITORY:
        path = ROOT / name
        told = with_repository(path.read_text(encoding="utf-8"), repository_url())
        path.write_text(told, encoding="utf-8")
    (DOCS / "options.md").write_text(options_page(), encoding="utf-8")
    (DOCS / "api.md").write_text(api_page(), encoding="utf-8")
    page = DOCS / "troubleshooting.md"
    page.write_text(with_conditions(page.read_text(encoding="utf-8")), encoding="utf-8")
    page = DOCS / "commands.md"
    page.write_text(with_command_options(page.read_text(encoding="utf-8")), encoding="utf-8")
    page = DOCS / "service.md"
    page.write_text(with_assumptions(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
