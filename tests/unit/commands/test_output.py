"""What is printed of messages that anybody may have sent; and the line of progress."""

import ast
import io
import json
from pathlib import Path

import pytest
from refs import ORDERS

import spark_azqueue
from spark_azqueue.commands import looking
from spark_azqueue.commands.command_line import main
from spark_azqueue.commands.doctor.command_line import tell
from spark_azqueue.commands.doctor.finding import Finding, say
from spark_azqueue.commands.scan import ScanCounts
from spark_azqueue.commands.shared import ProgressBar, age_of, as_json, fields_of, lines_of
from spark_azqueue.errors import ServiceError
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.envelopes import poison_envelope
from spark_azqueue.service.messages import Message

NOW_S = 1_700_000_000


def message(text, *, intact=True):
    return Message(ORDERS, "id-1", text, NOW_S * 1_000_000, 0, 2, intact=intact)


HOSTILE = "a\x1b]0;title\x07\x9b31m\u202e\r\x7fb\nid-2  age 1 s"


@pytest.mark.parametrize("is_whole", [True, False])
def test_nothing_that_a_terminal_obeys_is_printed(is_whole):
    envelope = poison_envelope(message(HOSTILE), HOSTILE)
    for text in (HOSTILE, envelope):
        lines = lines_of(message(text), Encoding.NONE, NOW_S, is_whole=is_whole)
        assert all(line.isprintable() for line in lines)
        assert all(line.startswith("  ") for line in lines[1:])


PACKAGE = Path(spark_azqueue.__file__).parent


def prints():
    """What the command line prints without `say`, by module."""
    for folder in ("commands", "doctor"):
        for file in sorted((PACKAGE / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
                    yield file.name, ", ".join(map(ast.unparse, node.args))


def test_one_function_prints_all_that_people_read():
    allowed = {"printable", "overview()", ""}
    assert [each for each in prints() if each[1] not in allowed and "as_json(" not in each[1]] == []
    assert [file for file, what in prints() if what == "printable"] == ["finding.py"]


@pytest.mark.parametrize("is_error", [True, False])
def test_what_is_said_has_lines_and_nothing_that_a_terminal_obeys(capsys, is_error):
    say(f"first\n{HOSTILE} AccountKey=secret", is_error=is_error)

    printed = capsys.readouterr()
    told = printed.err if is_error else printed.out
    assert told.startswith("first\na\\x1b]0;title\\x07\\x9b31m")
    assert all(line.isprintable() for line in told.split("\n"))
    assert "secret" not in told


def test_a_finding_is_one_line_and_its_advice_is_below_it(capsys):
    tell([Finding(False, HOSTILE, f"do this\n{HOSTILE}")])

    first, *more = capsys.readouterr().out.rstrip("\n").split("\n")
    assert first.startswith("BAD  a\\x1b]0;")
    assert first.endswith("\\r\\x7fb\\nid-2  age 1 s")
    assert all(line.startswith("     ") and line.isprintable() for line in more)


def test_an_error_that_quotes_a_service_is_said_so_too(monkeypatch, capsys):
    def run(arguments):
        raise ServiceError(f"could not count: HTTP 400 {HOSTILE}")

    monkeypatch.setattr(looking, "count", run)
    assert main(["count", "orders"]) == 1
    assert all(line.isprintable() for line in capsys.readouterr().err.split("\n"))


def test_json_is_printable_ascii_and_holds_the_text_unchanged():
    line = as_json(fields_of(message(HOSTILE), Encoding.NONE))

    assert line.isprintable()
    assert line.isascii()
    assert json.loads(line)["text"] == HOSTILE


def test_lines_of_a_message():
    lines = lines_of(message("x" * 300), Encoding.NONE, NOW_S + 3_725)
    assert lines[0] == "id-1  age 1 h 2 min, dequeued 2 times, 300 bytes"
    assert lines[1] == "  " + "x" * 200 + "… (300 characters)"
    assert "damaged" in lines_of(message("", intact=False), Encoding.NONE, NOW_S)[1]
    unknown = message("")._replace(insertion_time=0)
    assert "age unknown" in lines_of(unknown, Encoding.NONE, NOW_S)[0]
    assert fields_of(unknown, Encoding.NONE)["insertion_time"] is None


def test_an_envelope_shows_its_reason_and_its_body():
    text = poison_envelope(message('{"order": 1}'), "it was late")
    lines = lines_of(message(text), Encoding.NONE, NOW_S)
    assert lines[1:] == [f"  dead-lettered from {ORDERS.name} id-1: it was late", '  {"order": 1}']
    told = fields_of(message(text), Encoding.NONE)
    assert told["body"] == '{"order": 1}'
    assert told["envelope"]["reason"] == "it was late"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (59.9, "59 s"),
        (3_600, "1 h"),
        (90_061, "1 d 1 h"),
        (61, "1 min 1 s"),
    ],
)
def test_ages(seconds, words):
    assert age_of(seconds) == words


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_one_line_that_is_removed():
    now = [0.0]
    stream = Terminal()
    progress = ProgressBar(stream, "moved", 1_000, lambda: now[0])
    progress(ScanCounts(looked=10, done=8))
    progress(ScanCounts(looked=11, done=9))  # too soon
    now[0] = 2.0
    progress(ScanCounts(looked=600, done=500))
    progress.close()

    written = stream.getvalue()
    assert "\n" not in written
    assert "9 moved" not in written
    assert "500 moved, 600 of about 1,000 looked at, 250/s" in written
    assert written.split("\r")[-2].strip() == ""


def shown(tally, took, columns=120, **known):
    """What a terminal shows of a run that took so many seconds."""
    now = [0.0]
    stream = Terminal()
    progress = ProgressBar(stream, "moved", clock=lambda: now[0], columns=columns, **known)
    now[0] = took
    progress(tally)
    return stream.getvalue().removeprefix("\r")


@pytest.mark.parametrize(
    ("known", "text"),
    [
        # 600 of 1,000 in 90 s: the other 400 take a minute
        ({"total": 1_000}, "[##################............]  60%, 1 min left  500 moved,"),
        # 500 of the 625 that were asked for: 22.5 s
        ({"total": 9_000, "most": 625}, "[########################......]  80%, 22 s left  500 m"),
        ({"total": None, "most": 625}, "[########################......]  80%, 22 s left  500 m"),
        # More than there were at the start: nothing is known of the rest
        ({"total": 300}, "[##############################] 100%  500 moved, 600 of about 300 l"),
        ({"total": None}, "500 moved, 600 looked at, 6/s"),
        ({"total": 0}, "500 moved, 600 of about 0 looked at, 6/s"),
    ],
)
def test_the_bar_says_how_much_is_done_and_how_long_the_rest_takes(known, text):
    assert shown(ScanCounts(looked=600, done=500), 90, **known).startswith(text)


def test_before_the_first_message_there_is_a_bar_and_no_guess():
    text = shown(ScanCounts(), 1, total=1_000)

    assert text.startswith(
        "[..............................]   0%  0 moved, 0 of about 1,000 looked"
    )


@pytest.mark.parametrize(("columns", "done"), [(20, 6), (80, 6), (100, 8), (120, 18)])
def test_the_bar_takes_what_the_text_leaves_and_never_a_second_line(columns, done):
    text = shown(ScanCounts(looked=600_000, done=500_000), 3_000, columns, total=1_000_000)

    assert len(text) < columns
    assert text.count("#") == done


def test_without_a_terminal_there_is_no_progress():
    stream = io.StringIO()
    progress = ProgressBar(stream, "moved", None)
    progress(ScanCounts())
    progress.close()
    assert stream.getvalue() == ""
