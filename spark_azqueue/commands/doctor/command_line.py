"""`python -m spark_azqueue check`, the doctor: checks the installation and, if a queue is named,
the queue.

    python -m spark_azqueue
    python -m spark_azqueue orders --option messageEncoding=base64
    python -m spark_azqueue answers --as sink --options-file sink.options
    python -m spark_azqueue --remote sc://spark.example.com
    python -m spark_azqueue check --checkpoint /data/checkpoint --output /data/orders

Exit status: 0 if all is well, 1 if there are problems, 2 for a malformed command line. The doctor
changes nothing in the queue and prints no secrets.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.options.choices import Side
from spark_azqueue.options.of_commands import for_command
from spark_azqueue.options.option import ParsedOptions
from spark_azqueue.service.redaction import escaped

from .finding import Finding, say
from .installation import surroundings
from .output_checks import compare
from .statements import of_defaults, of_server

_MOST_CHARACTERS = 1_000_000
_MARKS = {True: "ok ", None: "-  ", False: "BAD"}
# If the text before "=" is no name, it may be part of a secret. So it is not printed.
_NAME = re.compile(r"[A-Za-z]+(\.[A-Za-z]+)?\Z")
_REPEATED = re.compile(
    r"(invalid choice|ignored explicit argument|ambiguous option):? .*?( \(choose from .*)?\Z", re.S
)
"""Pattern for messages in which `argparse` repeats an argument, which may be a misplaced secret."""


class Parser(argparse.ArgumentParser):
    """Argument parser of all commands. Names of arguments cannot be abbreviated, and errors do not
    show values.
    """

    def __init__(self, command: str, **given: Any) -> None:
        """command: name of the command. given: arguments for `ArgumentParser`."""
        super().__init__(prog=f"python -m spark_azqueue {command}", allow_abbrev=False, **given)
        self.command = command

    def given(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments. If they are malformed, the process exits with status 2."""
        found, more = self.parse_known_args(arguments)
        if more:
            self.error(
                "unknown arguments (not shown): options of Spark go with --option NAME=VALUE;"
                " --help lists what there is"
            )
        return found

    def error(self, message: str) -> NoReturn:
        """Print the usage and this message, then exit with status 2."""
        super().error(_REPEATED.sub(r"\1 (not shown)\2", message))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = Parser(
        "check",
        description="Check the installation, and whether a queue can be used. Changes nothing.",
        epilog=f"The credential comes from options, or from {ENVIRONMENT_VARIABLE} in the"
        " environment. Other users can see a command line in the list of processes: keep secrets"
        " out of it.",
    )
    parser.add_argument("queue", nargs="?", help="the queue to check, or several: a,b")
    add_options(parser)
    parser.add_argument(
        "--as", dest="side", choices=["source", "sink"], default="source", help="(default: source)"
    )
    parser.add_argument(
        "--remote",
        metavar="ADDRESS",
        help="a Connect server, sc://host:port: does its event log show secrets?",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="a query's checkpoint: would its --output skip batches?",
    )
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        help="this query's output: folder of a file sink, or Delta table",
    )
    parser.add_argument(
        "--txn-app-id",
        metavar="NAME",
        help="the txnAppId with which foreachBatch writes into --output, if any",
    )
    given = parser.given(arguments)
    if (given.checkpoint is None) != (given.output is None):
        parser.error("--checkpoint and --output go together")
    if given.txn_app_id and given.output is None:
        parser.error("--txn-app-id needs --checkpoint and --output")
    options = options_of(parser, given)
    if given.queue:
        options["queue"] = given.queue
    problems = tell(surroundings()) + tell(of_defaults())
    if given.remote:
        problems += tell([of_server(given.remote)])
    if given.output is not None:
        problems += tell(compare(given.checkpoint, given.output, given.txn_app_id))
    if options:
        side = Side.SINK if given.side == "sink" else Side.SOURCE
        problems += tell(_examine(options, side))
    elif given.output is None:
        say("\nTo check a queue, name it: python -m spark_azqueue <queue>")
    say(f"\n{_count(problems)}")
    return 1 if problems else 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `options_of` reads."""
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="as for Spark"
    )
    parser.add_argument(
        "--options-file", type=Path, metavar="FILE", help="options, one NAME=VALUE per line"
    )


def options_of(parser: argparse.ArgumentParser, given: argparse.Namespace) -> dict[str, str]:
    """Return the options in --options-file and --option. If they are malformed, the process
    exits."""
    try:
        options = options_in(given.options_file) if given.options_file else {}
        options.update(map(_pair, given.option))
    except (OSError, UnicodeError) as error:
        parser.error(f"--options-file cannot be read: {type(error).__name__}")
    except ValueError as error:
        parser.error(str(error))
    return options


def taken_options(
    parser: Parser, given: argparse.Namespace, *, of_log: bool = False
) -> ParsedOptions:
    """Return the options that the command uses. Prints the names of options that have no effect.

    of_log: True if the command reads a write-ahead log. Raises InvalidOption.
    """
    command = f"{parser.command} --log" if of_log else parser.command
    taken, idle = for_command(command, options_of(parser, given))
    if idle:
        say(f"without effect on {command}: {', '.join(idle)}", is_error=True)
    return taken


def _examine(options: dict[str, str], side: Side) -> Iterator[Finding]:
    try:
        # Imported here, because these modules need libraries, and the doctor reports missing
        # libraries.
        from .profile import compare_with_profile
        from .queue_checks import examine
    except ImportError as error:
        text = f"no queue was checked: the module {error.name} cannot be imported"
        yield Finding(False, text, "install spark-azqueue again, with all that it requires")
        return
    is_bad = False
    for finding in examine(options, side):
        is_bad = is_bad or finding.good is False
        yield finding
    if side is Side.SOURCE and not is_bad:
        yield compare_with_profile(options)


def tell(findings: Iterable[Finding]) -> int:
    """Print each finding as soon as it is made. Return the number of bad findings."""
    bad = 0
    for finding in findings:
        bad += finding.good is False
        say(f"{_MARKS[finding.good]}  {escaped(finding.text)}")
        if finding.good is not True:
            for line in finding.advice.splitlines():
                say(f"     {line}")
    return bad


def _count(problems: int) -> str:
    return {0: "All is well.", 1: "1 problem."}.get(problems, f"{problems} problems.")


def options_in(file: Path) -> dict[str, str]:
    """Return the options in a file, one NAME=VALUE per line. Skips empty lines and `#` comments.

    Raises OSError, UnicodeError, and ValueError for any other line (without its text) and for a
    file that is too large.
    """
    with file.open(encoding="utf-8") as opened:
        text = opened.read(_MOST_CHARACTERS + 1)
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"--options-file has more than {_MOST_CHARACTERS:,} characters")
    lines = text.splitlines()
    return dict(_pair(line) for line in lines if line.strip() and line.lstrip()[0] != "#")


def _pair(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals or not _NAME.match(name.strip()):
        raise ValueError("an option must be NAME=VALUE (value not shown)")
    return name.strip(), value.strip()
