"""Arguments of every command: names are written out, and what is mistyped is never repeated."""

import pytest

from spark_azqueue.commands.command_line import COMMANDS, main

SECRET = "AccountKey=c2VjcmV0"
NEEDED = {
    "check": [],
    "ingest": ["--folder", "/job", "--into", "/out"],
    "count": ["orders"],
    "watch": ["orders"],
    "peek": ["orders"],
    "redrive": ["orders-poison"],
    "move": ["orders", "--to", "later"],
    "purge": ["orders"],
    "export": ["orders"],
    "search": ["orders", "--contains", "a"],
    "send": ["orders", "-"],
    "replay": ["--log", "file:/log", "--batch", "1", "--into", "orders"],
    "finish": ["file:/log"],
    "certify": [],
}
FLAGS = {
    "ingest": ["json", "drain"],
    "count": ["json"],
    "peek": ["json", "whole", "unpack"],
    "redrive": ["json", "execute", "as-is", "split"],
    "move": ["json", "execute"],
    "purge": ["json", "execute", "each"],
    "export": ["json", "uncommitted", "unpack"],
    "search": ["json", "whole", "unpack"],
    "send": ["json", "raw", "pack", "skip-broken"],
    "replay": ["json", "execute", "mark"],
    "finish": ["discard", "execute"],
    "certify": ["load"],
}


def test_every_command_is_tried():
    assert NEEDED.keys() == COMMANDS.keys()


@pytest.mark.parametrize(
    ("command", "mistyped"),
    [
        *((command, ["--optoin", SECRET]) for command in NEEDED),
        *((command, [f"--optoin={SECRET}"]) for command in NEEDED),
        *((command, ["one-too-many", SECRET]) for command in NEEDED),
        *((command, ["--opti", f"name={SECRET}"]) for command in NEEDED),
        *((command, ["--options", SECRET]) for command in NEEDED),
        *((command, [f"--o={SECRET}"]) for command in NEEDED),
        *((command, ["--option", SECRET.replace("=", "")]) for command in NEEDED),
        *((command, [f"--{flag}={SECRET}"]) for command, flags in FLAGS.items() for flag in flags),
        ("check", ["--as", SECRET]),
        ("finish", ["--queue", SECRET]),
        ("export", ["--from", SECRET]),
        ("replay", ["--batch", SECRET]),
    ],
)
def test_a_mistake_ends_with_status_2_and_is_not_repeated(capsys, command, mistyped):
    with pytest.raises(SystemExit) as ended:
        main([command, *NEEDED[command], *mistyped])
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert "c2VjcmV0" not in told.out + told.err
    assert "error: " in told.err


@pytest.mark.parametrize(
    ("command", "flag"), [(name, flag) for name, flags in FLAGS.items() for flag in flags]
)
def test_no_flag_is_abbreviated(capsys, command, flag):
    with pytest.raises(SystemExit) as ended:
        main([command, *NEEDED[command], f"--{flag[:-1]}"])
    assert ended.value.code == 2
    assert "unknown arguments (not shown)" in capsys.readouterr().err


def test_a_choice_names_what_there_is(capsys):
    with pytest.raises(SystemExit):
        main(["check", "orders", "--as", "snik"])
    assert "invalid choice (not shown) (choose from" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["redrive", "move", "purge", "replay", "finish"])
def test_what_changes_messages_has_a_dry_run(capsys, command):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--execute" in said
    assert "A dry run without --execute." in said
