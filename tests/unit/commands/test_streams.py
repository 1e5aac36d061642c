"""What the commands print, if the streams are not those of a modern terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_azqueue.commands.scan import ScanCounts
from spark_azqueue.commands.shared import ProgressBar
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def shell(fake):
    """Runs a shell's command line in which $AZQUEUE stands for the commands; gives its result."""
    fake.create_queue("orders")
    fake.create_queue("orders-poison")
    for _ in range(5):
        fake.put("orders-poison", "ü€😀")

    def run(line, **environment):
        return subprocess.run(
            ["sh", "-c", line],
            env=os.environ
            | {
                ENVIRONMENT_VARIABLE: fake.connection_string,
                "AZQUEUE": f"{sys.executable} -m spark_azqueue",
            }
            | environment,
            cwd=ROOT,
            capture_output=True,
            timeout=60,
        )

    return run


def test_a_shell_without_unicode_gets_escapes(shell):
    for arguments in ("peek orders-poison", "redrive orders-poison", "--help"):
        ended = shell(f"$AZQUEUE {arguments}", PYTHONIOENCODING="ascii")
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert ended.stdout.isascii()


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_error(shell, fake, closed):
    ended = shell(f"$AZQUEUE redrive orders-poison --execute {closed}")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert len(fake.messages("orders")) == 5


def test_an_export_into_a_closed_stream_is_no_export(shell, fake):
    ended = shell("$AZQUEUE export orders-poison >&-")
    assert ended.returncode == 2
    assert b"standard output is closed: name a file with --to" in ended.stderr
    assert {message.dequeue_count for message in fake.messages("orders-poison")} == {0}


def test_a_reader_that_has_ended_gets_no_traceback(shell):
    ended = shell("$AZQUEUE peek orders-poison --json | head -c 1")
    assert ended.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
def test_output_that_cannot_be_written_is_told(shell, fake):
    ended = shell("$AZQUEUE redrive orders-poison --execute >/dev/full")
    assert ended.returncode == 1
    assert b"the output could not be written" in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert len(fake.messages("orders")) == 5


class ClosedTerminal:
    def isatty(self):
        return True

    def write(self, text):
        raise OSError(5, "Input/output error")

    flush = write


def test_progress_on_a_terminal_that_was_closed_ends_nothing():
    progress = ProgressBar(ClosedTerminal(), "moved", None)
    progress(ScanCounts(done=1))
    progress.close()
