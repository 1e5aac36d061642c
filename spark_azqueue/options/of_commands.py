"""The options that each command uses: one table, for commands, docs/commands.md and tests.

A command uses an option, refuses the option, or reports that the option has no effect. No option is
silently ignored. A command accepts any option whose value is what the command does anyway
(`operation=enqueue`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from spark_azqueue.errors import InvalidOption

from .account import ACCOUNT_OPTIONS
from .choices import Side
from .option import ParsedOptions
from .parse import OPTIONS, parse


class Use(enum.Enum):
    """What a command does with an option. The value is the text in docs/commands.md."""

    TAKEN = "used:"
    ARGUMENT = "an argument instead:"
    REFUSED = "refused:"
    IDLE = "without effect:"


COMMANDS = (
    *("count", "watch", "peek", "move", "redrive", "purge", "export", "search"),
    *("export --log", "search --log", "send", "replay", "finish", "certify"),
)
"""The columns of the table. (`check` and `ingest` are not in the table, because they accept the
same options as Spark.)"""

_LOGS = ("export --log", "search --log", "replay")
_TAKES = ("move", "redrive", "export", "search")
_PUTS = ("send", "replay")
_COPIES = ("move", "redrive")
_BODIES = ("peek", *_TAKES, "purge", *_LOGS, "send")
_BLOBS = (*_LOGS, "send", "finish", "certify")


class OptionRow(NamedTuple):
    """Options that every command treats alike. If no field names a command, the options have no
    effect on the command.
    """

    options: tuple[str, ...]
    taken: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    argument: tuple[str, ...] = ()
    instead: str = ""
    """What to do in place of setting the option, for commands that refuse it."""


ROWS = (
    OptionRow(tuple(each.name for each in ACCOUNT_OPTIONS), taken=COMMANDS),
    OptionRow(
        ("queue",),
        taken=("finish",),
        argument=tuple(each for each in COMMANDS if each not in ("finish", "certify")),
    ),
    OptionRow(("messageEncoding",), taken=_BODIES),
    OptionRow(("createQueue",), taken=(*_COPIES, *_PUTS)),
    OptionRow(("blobAccountUrl", "secret.blobConnectionString"), taken=_BLOBS),
    OptionRow(("failOnDataLoss",), taken=(*_LOGS, "send", "finish")),
    OptionRow(("isolationLevel",), taken=("peek", *_TAKES)),
    OptionRow(("poisonQueue",), taken=("count", "watch")),
    OptionRow(("peekMessages",), taken=("peek",)),
    OptionRow(("parallelism",), taken=(*_PUTS, "finish")),
    OptionRow(
        ("visibilityDelay",),
        taken=_PUTS,
        refused=_COPIES,
        instead="a copy is visible at once",
    ),
    OptionRow(
        ("timeToLive",),
        taken=_PUTS,
        refused=_COPIES,
        instead="a copy keeps what is left of the original's time; --time-to-live sets another",
    ),
    OptionRow(
        ("transactionLog",),
        taken=_PUTS,
        refused=_COPIES,
        argument=("finish",),
        instead="messages are moved at least once, and not by a transaction",
    ),
    OptionRow(
        ("txnAppId", "txnVersion"),
        taken=_PUTS,
        refused=_COPIES,
        instead="messages are moved at least once, and not by a transaction",
    ),
    OptionRow(
        ("onRowError", "rowErrorQueue"),
        taken=("finish",),
        refused=(*_PUTS, *_COPIES),
        instead="what cannot be sent is named, and counted; send --skip-broken passes over it",
    ),
    OptionRow(
        ("operation", "onStaleReceipt", "messageFormat"),
        refused=(*_PUTS, *_COPIES),
        instead="the command puts new messages, their texts as they are given, and keeps them",
    ),
    OptionRow(
        ("largeBody", "blobContainer"),
        refused=("send",),
        instead="it puts no body into a blob: write such bodies with Spark",
    ),
    OptionRow(("defaultQueue",), argument=(*_PUTS, *_COPIES)),
    OptionRow(("readLog",), refused=("export", "search"), argument=_LOGS, instead="use --log"),
    OptionRow(
        ("startingAt", "endingAt"),
        refused=("export", "search", *_LOGS),
        instead="use --batch, --from and --to-time, with --log",
    ),
)
"""An option that has no row affects only running queries, so it has no effect on a command."""


def use_of(command: str, option: str) -> Use:
    """Return what a command does with an option. command: one of `COMMANDS`."""
    row = _row_of(option)
    for commands, use in (
        (row.taken, Use.TAKEN),
        (row.argument, Use.ARGUMENT),
        (row.refused, Use.REFUSED),
    ):
        if command in commands:
            return use
    return Use.IDLE


def _row_of(option: str) -> OptionRow:
    return next((row for row in ROWS if option in row.options), OptionRow((option,)))


def rest() -> Iterator[str]:
    """Return the options that have no effect on any command."""
    return (each.name for each in OPTIONS if not any(each.name in row.options for row in ROWS))


class CommandOptions(NamedTuple):
    """Options of a command. taken: parsed options; an option that the command does not use has its
    default. idle: names of the options that have no effect.
    """

    taken: ParsedOptions
    idle: tuple[str, ...]


def for_command(command: str, given: Mapping[str, str]) -> CommandOptions:
    """Parse options, and keep the options that the command uses. command: one of `COMMANDS`.

    Raises InvalidOption for an option that `parse` or the command refuses.
    """
    parsed = parse(given, Side.BOTH)
    taken, idle = parse({}, Side.BOTH), []
    for name, text in parsed.written.items():
        use = use_of(command, name)
        if use is Use.TAKEN:
            taken[name], taken.written[name] = parsed[name], text
        elif parsed[name] == taken[name] or use is Use.ARGUMENT:
            continue
        elif use is Use.REFUSED:
            raise InvalidOption(
                f"option '{name}' does not go with the command {command}: {_row_of(name).instead}."
                f" Remove '{name}'"
            )
        else:
            idle.append(name)
    return CommandOptions(taken, tuple(idle))
