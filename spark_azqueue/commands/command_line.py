"""`python -m spark_azqueue`: one command line for the doctor and for all commands.

Exit status: 0 if all is well, 1 if not, 2 for a malformed command line, 130 after Ctrl-C. No output
shows a secret of the options.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from spark_azqueue.commands.doctor.finding import advice_on, say
from spark_azqueue.errors import AzQueueError


class Command(NamedTuple):
    """A command: its arguments and its meaning, as texts for the help, and the function that runs
    it.

    place: `module:function`. The module is imported when the command runs, because it may need
    libraries that are missing, and the doctor has to work without these libraries.
    """

    arguments: str
    meaning: str
    place: str

    def run(self, arguments: list[str]) -> int:
        """Run the command; return the exit status."""
        module, _, function = self.place.partition(":")
        status: int = getattr(importlib.import_module(module), function)(arguments)
        return status


_HERE, _DOCTOR = "spark_azqueue.commands", "spark_azqueue.commands.doctor"

COMMANDS: Mapping[str, Command] = {
    "check": Command(
        "[QUEUE]",
        "what is installed, and whether a queue can be used",
        f"{_DOCTOR}.command_line:main",
    ),
    "ingest": Command(
        "--folder FOLDER --into TABLE",
        "append the messages of a queue to a table, with Spark",
        "spark_azqueue.running.ingest_command:ingest",
    ),
    "count": Command(
        "QUEUE",
        "show how many messages queues hold, and the age of the first",
        f"{_HERE}.looking:count",
    ),
    "watch": Command(
        "QUEUE",
        "export backlog, age and poison messages, even while no query runs",
        "spark_azqueue.commands.watching:watch",
    ),
    "peek": Command("QUEUE", "show the first messages of a queue", f"{_HERE}.looking:peek"),
    "redrive": Command("QUEUE", "move messages of a poison queue back", f"{_HERE}.moving:redrive"),
    "move": Command("QUEUE --to TARGET", "move messages to another queue", f"{_HERE}.moving:move"),
    "purge": Command("QUEUE", "delete messages", f"{_HERE}.moving:purge"),
    "export": Command(
        "[QUEUE]",
        "write all messages of a queue or a log as JSON",
        f"{_HERE}.exporting:export",
    ),
    "search": Command("[QUEUE]", "find messages in a queue or a log", f"{_HERE}.exporting:search"),
    "send": Command("QUEUE [FILE]", "put lines into a queue", f"{_HERE}.putting:send"),
    "replay": Command(
        "--log LOG --into QUEUE", "send the messages of a log again", f"{_HERE}.putting:replay"
    ),
    "finish": Command(
        "LOG", "show or delete hidden messages of a transaction log", f"{_DOCTOR}.finish:main"
    ),
    "certify": Command(
        "",
        "test an account for what this package assumes about the service",
        "spark_azqueue.commands.certify.command:main",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    if arguments[:1] in (["-h"], ["--help"]):
        print(overview())
        return 0
    named = bool(arguments) and arguments[0] in COMMANDS
    command = COMMANDS[arguments[0] if named else "check"]
    try:
        with _interrupted_by_signals():
            return _run(command, arguments[named:])
    except KeyboardInterrupt:
        say("\ninterrupted", is_error=True)
        return 130


@contextlib.contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does. Existing handlers are not
    replaced.

    A command that changes queues sets its own handlers. This function is needed while the command
    imports modules and checks its arguments.
    """
    is_main = threading.current_thread() is threading.main_thread()
    names = ("SIGTERM", "SIGHUP") if is_main else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    free = [each for each in numbers if signal.getsignal(each) is signal.SIG_DFL]
    for number in free:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in free:
            signal.signal(number, signal.SIG_DFL)


def _run(command: Command, arguments: list[str]) -> int:
    """Run a command, and return the exit status. Errors are printed; only KeyboardInterrupt is
    raised.
    """
    try:
        status = command.run(arguments)
        sys.stdout.flush()
    except AzQueueError as error:
        say(advice_on(error), is_error=True)
        return 1
    except BrokenPipeError:  # the program that reads the output, such as `head`, has exited
        _drop_output()
        return 1
    except OSError as error:  # the disk is full, or the terminal was closed
        with contextlib.suppress(OSError):
            say(f"the output could not be written: {error}", is_error=True)
        _drop_output()
        return 1
    except ImportError as error:
        say(
            f"the module {error.name} cannot be imported: install spark-azqueue again, with all"
            " that it requires",
            is_error=True,
        )
        return 1
    return status


def _prepare_streams() -> None:
    """Prepare the output streams, so that `print` works if a shell cannot show a character, or if a
    stream is closed.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discard buffered output, so that the process exits without an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def overview() -> str:
    """Return the help of the whole command line."""
    width = max(len(f"{name} {each.arguments}") for name, each in COMMANDS.items())
    lines = [
        f"  {f'{name} {each.arguments}':<{width}}  {each.meaning}"
        for name, each in COMMANDS.items()
    ]
    return "\n".join(
        [
            "usage: python -m spark_azqueue COMMAND …",
            "       python -m spark_azqueue [QUEUE] …    (the same as `check`)",
            "",
            "commands:",
            *lines,
            "",
            "Without --execute, redrive, move, purge, replay and finish only do a dry run.",
            "Help of a command: python -m spark_azqueue COMMAND --help",
        ]
    )
