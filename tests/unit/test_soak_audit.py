"""The audit of `make soak` with a log: whatever is not exactly once is told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SENT = {"a": "A", "b": "B"}
BOTH = [(1, 0, "a", "A"), (1, 1, "b", "B")]
"""Rows as (life, batch, message id, body), each in a batch of its own."""


class NoHistory:
    def history(self, ids):
        return {id_: [] for id_ in ids}


@pytest.fixture
def audit(monkeypatch, tmp_path):
    """Audits rows. Life 1 is killed while batch 1 is not committed; life 2 commits up to 2."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "soak"))
    import audit as module

    def run(rows, differing=0, exact=True, **more):
        for number, (life, batch, id_, body) in enumerate(rows):
            text = json.dumps({"life": life, "batch": batch, "rows": [[id_, body, 1, "r"]]})
            (tmp_path / f"{number}.json").write_text(text)
        for number in range(differing):
            (tmp_path / f"0001-{number:06}-77.differs").touch()
        lives = [module.Life(1, "java", 0, 1, 0, 10), module.Life(2, "stop", 2, 2, 10, 20)]
        return module.audit(SENT, tmp_path, lives, NoHistory(), exact=exact, **more)

    yield run
    for name in ("audit", "targets"):
        sys.modules.pop(name, None)


def test_each_message_once_in_a_committed_batch_is_good(audit):
    findings = audit(BOTH)
    assert findings.good
    assert (findings.processed, findings.rows) == (2, 2)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param([*BOTH, (2, 2, "b", "B")], "duplicates", id="again"),
        pytest.param(BOTH[:1], "lost", id="lost"),
        pytest.param([BOTH[0], (2, 3, "b", "B")], "lost", id="not committed"),
        pytest.param([BOTH[0], (1, 1, "b", "X")], "altered", id="altered"),
        pytest.param([*BOTH, (1, 2, "c", "C")], "foreign", id="never sent"),
    ],
)
def test_what_is_not_exactly_once_is_not_good(audit, rows, found):
    findings = audit(rows)
    assert not findings.good
    assert getattr(findings, found)


def test_a_batch_that_came_again_with_other_rows_is_not_good(audit):
    assert not audit(BOTH, differing=1).good


def test_without_a_log_the_rows_of_an_interrupted_batch_may_come_again(audit):
    findings = audit([*BOTH, (2, 2, "b", "B")], exact=False)
    assert findings.good
    assert findings.duplicates.total() == 1


def test_rows_of_a_batch_that_was_given_up_may_come_again(audit):
    rows = [*BOTH, (2, 2, "b", "B")]

    findings = audit(rows, differing=2, given_up={1: {"b"}, 0: set()})

    assert findings.good
    assert (findings.given_up, findings.again) == (2, 1)
    assert not audit(rows, given_up={1: {"a"}}).good
    assert not audit(rows, differing=2, given_up={1: {"b"}}).good


def test_what_stands_in_a_poison_queue_is_not_lost(audit):
    assert audit(BOTH[:1], aside={"B"}).good
    assert not audit(BOTH[:1], aside={"A"}).good


@pytest.mark.parametrize("script", ["run", "drain_run", "files_run"])
def test_each_campaign_starts(script):
    folder = Path(__file__).parents[1] / "soak"
    command = [sys.executable, "-W", "ignore", str(folder / f"{script}.py"), "--help"]

    assert subprocess.run(command, capture_output=True, check=True).stdout.startswith(b"usage")
