"""`check --checkpoint … --output …`: would the sink of a query skip its next batches?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from spark_azqueue.commands.command_line import main
from spark_azqueue.commands.doctor import output_checks
from spark_azqueue.commands.doctor.finding import Finding
from spark_azqueue.commands.doctor.output_checks import compare

QUERY = "8d42c1f0-0000-4000-8000-000000000001"


def checkpoint(folder: Path, planned: Iterable[int], committed: Iterable[int]) -> Path:
    """A checkpoint as Spark leaves it, with the sums of its file system."""
    for log, numbers in (("offsets", planned), ("commits", committed)):
        (folder / log).mkdir(parents=True)
        for number in numbers:
            (folder / log / f"{number}").write_text("v1\n{}")
            (folder / log / f".{number}.crc").write_bytes(b"crc")
    (folder / "metadata").write_text(json.dumps({"id": QUERY}))
    return folder


def files(folder: Path, *names: str) -> Path:
    (folder / "_spark_metadata").mkdir(parents=True)
    for name in names:
        (folder / "_spark_metadata" / name).write_text("v1\n")
    return folder


def table(folder: Path, *commits: tuple[str, int] | str, first: int = 0) -> Path:
    """A Delta table: of each commit its `txn`, or its text."""
    (folder / "_delta_log").mkdir(parents=True)
    for number, commit in enumerate(commits, first):
        text = commit
        if isinstance(commit, tuple):
            txn = {"txn": {"appId": commit[0], "version": commit[1], "lastUpdated": 1}}
            actions: list[object] = [{"commitInfo": {}}, txn, {"add": {"path": "x.parquet"}}]
            text = "".join(json.dumps(each) + "\n" for each in actions)
        (folder / "_delta_log" / f"{number:020d}.json").write_text(str(text))
    return folder


def only(findings: Iterable[Finding]) -> Finding:
    (found,) = findings
    return found


@pytest.mark.parametrize(
    ("planned", "committed", "names", "good", "text"),
    [
        ((40, 41), (40, 41), ("9.compact", "40", "41"), True, "up to 41: no new batch is skipped"),
        ((41, 42), (40, 41), ("42",), True, "no new batch"),  # died between the two commits
        ((41, 42), (41,), ("41",), True, "no new batch"),  # died before the sink's commit
        ((0, 1), (0, 1), ("9.compact",), False, "Batches 2 to 9 are skipped"),
        ((0, 1), (0, 1), ("39.compact", "40"), False, "only up to 1. Batches 2 to 40 are skipped"),
        ((), (), ("0", "1"), False, "the checkpoint is new. Batches 0 to 1 are skipped"),
        ((7,), (7,), ("3",), None, "batches up to 3, the checkpoint has committed 7"),
        ((7,), (7,), (), None, "has no batch, the checkpoint has committed 7"),
        ((3,), (3,), (".9.crc", "9.tmp", "٩", "9999999999999999999"), None, "has no batch"),
    ],
)
def test_a_file_sink_is_compared_with_the_newest_planned_batch(
    tmp_path: Path,
    planned: tuple[int, ...],
    committed: tuple[int, ...],
    names: tuple[str, ...],
    good: bool | None,
    text: str,
) -> None:
    at = checkpoint(tmp_path / "checkpoint", planned, committed)

    found = only(compare(str(at), str(files(tmp_path / "output", *names))))

    assert (found.good, text in found.text) == (good, True), found.text


def test_a_checkpoint_that_is_gone_is_a_new_one(tmp_path: Path) -> None:
    output = files(tmp_path / "output", "0", "1")

    found = only(compare(f"file://{tmp_path}/none", f"file:{output}"))

    assert found.good is False
    assert "the checkpoint is new. Batches 0 to 1 are skipped" in found.text
    assert "name a new output" in found.advice


@pytest.mark.parametrize(
    ("commits", "app", "good", "text"),
    [
        ([(QUERY, 4), (QUERY, 5)], None, True, "for this query's id, has batches up to 5"),
        ([(QUERY, 5), (QUERY, 6)], None, False, "Batches 6 to 6 are skipped"),
        ([("orders", 9), ("b", 1)], "orders", False, "for txnAppId 'orders', has batches up to 9"),
        ([("orders", 5)], "orders", True, "no new batch is skipped"),
        ([("other", 9)], "orders", True, "no batch of txnAppId 'orders': none is skipped"),
    ],
)
def test_a_delta_table_is_compared_by_its_txn_actions(
    tmp_path: Path, commits: list[tuple[str, int]], app: str | None, good: bool, text: str
) -> None:
    at = checkpoint(tmp_path / "checkpoint", (4, 5), (4, 5))

    found = only(compare(str(at), str(table(tmp_path / "output", *commits)), app))

    assert (found.good, text in found.text) == (good, True), found.text


def test_applications_of_others_are_named_and_not_judged(tmp_path: Path) -> None:
    output = table(tmp_path / "output", ("orders", 9), ("old", 2), ("x" * 5000, 7))
    at = checkpoint(tmp_path / "checkpoint", (5,), (5,))

    of_query, others = compare(str(at), str(output))

    assert of_query.good is True
    assert others.good is None
    assert "of 'orders' up to 9, 'xxx" in others.text
    assert len(others.text) < 500
    assert "'old'" not in others.text
    assert "--txn-app-id" in others.advice


def test_what_older_commits_said_is_not_guessed(tmp_path: Path) -> None:
    """Delta removes old commits; their `txn` are in its checkpoints."""
    at = checkpoint(tmp_path / "checkpoint", (5,), (5,))
    output = table(tmp_path / "output", ("other", 3), first=100)

    found = only(compare(str(at), str(output)))

    assert found.good is None
    assert "only a part of its log was read" in found.text


def test_a_log_of_a_table_is_read_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_checks, "DELTA_BYTES_AT_MOST", 1000)
    at = checkpoint(tmp_path / "checkpoint", (5,), (5,))
    output = table(tmp_path / "output", (QUERY, 9), *["{}\n" * 100] * 9)

    assert "only a part of its log was read" in only(compare(str(at), str(output))).text


def test_of_many_applications_the_one_that_is_asked_for_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_checks, "APPS_AT_MOST", 3)
    at = checkpoint(tmp_path / "checkpoint", (5,), (5,))
    others = [(f"app-{number}", 9) for number in range(9)]

    found = only(
        compare(str(at), str(table(tmp_path / "output", ("orders", 7), *others)), "orders")
    )

    assert "for txnAppId 'orders', has batches up to 7" in found.text


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000 + '"txn"',
        '{"txn": []}',
        '{"txn": {"appId": 1, "version": 1}}',
        json.dumps({"txn": {"appId": QUERY, "version": True}}),
        json.dumps({"txn": {"appId": QUERY, "version": 2**70}}),
        json.dumps({"txn": {"appId": QUERY, "version": -1}}),
        '{"txn": \ud800',
    ],
)
def test_a_line_that_is_no_action_says_nothing(tmp_path: Path, line: str) -> None:
    at = checkpoint(tmp_path / "checkpoint", (5,), (5,))
    output = table(tmp_path / "output", "")
    commit = output / "_delta_log" / f"{0:020d}.json"
    commit.write_bytes(line.encode("utf-8", "surrogatepass"))

    assert "no batch of this query's id" in only(compare(str(at), str(output))).text


@pytest.mark.parametrize(
    "place", ["abfss://lake@shop.dfs.core.windows.net/x", "dbfs:/x", "s3a://b"]
)
def test_a_remote_folder_is_not_looked_at(tmp_path: Path, place: str) -> None:
    at = checkpoint(tmp_path / "checkpoint", (5,), (5,))

    for found in (only(compare(str(at), place)), only(compare(place, str(tmp_path)))):
        assert found.good is False
        assert f"{place} is not on this machine: it was not looked at" in found.text
        assert "_spark_metadata" in found.advice


def test_folders_that_say_nothing_are_named(tmp_path: Path) -> None:
    at = checkpoint(tmp_path / "checkpoint", (5,), (5,))
    (tmp_path / "parquet").mkdir()

    none = only(compare(str(at), str(tmp_path / "parquet")))
    missing = only(compare(str(at), str(tmp_path / "missing")))
    foreign = only(compare(str(tmp_path), str(tmp_path)))

    assert (none.good, "has no record of batches" in none.text) == (None, True)
    assert (missing.good, "does not exist" in missing.text) == (None, True)
    assert (foreign.good, "is no checkpoint of Spark" in foreign.text) == (False, True)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    at = checkpoint(tmp_path / "checkpoint", (5,), (5,))
    (at / "metadata").unlink()
    os.mkfifo(at / "metadata")  # a read of it would wait for ever

    found = only(compare(str(at), str(files(tmp_path / "output", "5"))))

    assert found.good is False
    assert "cannot be read" in found.text


def test_a_folder_of_too_many_names_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_checks, "NAMES_AT_MOST", 10)
    at = checkpoint(tmp_path / "checkpoint", range(20), range(20))

    assert "more than 10 names" in only(compare(str(at), str(tmp_path))).text


def test_the_command_line_compares_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = checkpoint(tmp_path / "checkpoint", (), ())
    output = files(tmp_path / "output", "0")
    both = ["--checkpoint", str(at), "--output", str(output)]

    assert main(["check", *both]) == 1
    printed = capsys.readouterr().out
    assert "BAD  output" in printed
    assert "Batches 0 to 0 are skipped" in printed
    for half in (both[:2], both[2:], ["--txn-app-id", "orders"]):
        with pytest.raises(SystemExit, match="2"):
            main(["check", *half])
