"""`certify`: what it finds on the fake, and on a fake that breaks one assumption."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from accounts import account_of
from broken import BREAKS
from budget import more
from reference import DOCS, with_assumptions

from spark_azqueue.commands.certify import sandbox as sandboxes
from spark_azqueue.commands.certify.assumptions import ASSUMPTIONS
from spark_azqueue.commands.certify.checks import CHECKS
from spark_azqueue.commands.certify.command import run
from spark_azqueue.commands.certify.sandbox import Sandbox
from spark_azqueue.commands.certify.trial import TrialOutcome, rows
from spark_azqueue.commands.command_line import main
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.service.queues.management import create_queue
from spark_azqueue.testing import Fault
from spark_azqueue.testing.blobs import FakeBlobService

TRIED = [each.key for each in ASSUMPTIONS if not each.untried]


@pytest.fixture
def blobs():
    with FakeBlobService(containers=()) as service:
        yield service


@pytest.fixture
def bench(fake, blobs):
    account = account_of(fake.connection_string)
    made = Sandbox(account, replace(account, url=blobs.url), wait=fake.clock.advance)
    yield made
    assert made.close() == []


def found(bench, outcome):
    return {row.assumption.key: row.detail for row in rows(bench) if row.outcome is outcome}


def test_each_assumption_has_a_check_and_a_break_or_says_why_not():
    assert sorted(CHECKS) == sorted(BREAKS) == sorted(TRIED)
    assert len({each.key for each in ASSUMPTIONS}) == len(ASSUMPTIONS)


def test_the_fake_keeps_them_all_and_nothing_is_left(fake, blobs, bench):
    results = list(rows(bench))

    assert [r.assumption.key for r in results if r.outcome is TrialOutcome.HOLDS] == TRIED
    assert {r.outcome for r in results if r.assumption.untried} == {TrialOutcome.NOT_TRIED}
    assert bench.requests < 400
    made = {entry.queue for entry in fake.log if entry.queue}
    assert all(name.startswith("azqueue-certify-") for name in made)
    assert bench.close() == []
    assert fake.log[-1].op == "delete_queue"
    for name in made:
        with pytest.raises(Exception, match="QueueNotFound"):
            fake.count(name)
    assert blobs.names() == []


@pytest.mark.parametrize("key", TRIED)
def test_an_assumption_that_is_broken_makes_just_its_row_differ(key, bench, monkeypatch):
    BREAKS[key](monkeypatch)

    assert list(found(bench, TrialOutcome.DIFFERS)) == [key]


def test_what_a_sas_of_a_queue_cannot_try_is_told_with_what_is_missing(fake):
    account = replace(account_of(fake.connection_string), key=None, sas=fake.sas("orders"))
    bench = Sandbox(account)

    told = found(bench, TrialOutcome.NOT_TRIED)

    assert len(told) == len(ASSUMPTIONS)
    assert "may not create a queue: " in told["stale-receipt"]
    assert "no blob endpoint" in told["blob-exists"]
    assert bench.close() == []


def test_a_permission_that_is_missing_is_named(fake, bench):
    fake.permissions = "racdwl"  # everything but process and update

    told = found(bench, TrialOutcome.NOT_TRIED)

    assert "Storage Queue Data Message Processor" in told["stale-receipt"]
    assert "put-hidden" in told
    assert "text-limit" not in told
    assert found(bench, TrialOutcome.DIFFERS) == {}


def test_requests_are_bounded(bench, monkeypatch):
    monkeypatch.setattr(sandboxes, "MOST_REQUESTS", 30)

    told = found(bench, TrialOutcome.NOT_TRIED)

    assert bench.requests <= 30
    assert told["version"] == "the bound of 30 requests is reached"


class Drawn:
    """In place of the module uuid: draws the same name again and again."""

    hex = "0" * 32

    @staticmethod
    def uuid4():
        return Drawn


def test_a_queue_and_a_container_that_exist_under_the_drawn_names_are_left_alone(fake, monkeypatch):
    monkeypatch.setattr(sandboxes, "uuid", Drawn)
    name = f"{sandboxes.PREFIX}00000000"
    fake.create_queue(f"{name}-000000")
    fake.put(f"{name}-000000", "somebody's")
    with FakeBlobService(containers=(name,)) as blobs:
        account = account_of(fake.connection_string)
        made = Sandbox(account, replace(account, url=blobs.url), wait=fake.clock.advance)
        for make in (made.queue, made.folder):
            with pytest.raises(sandboxes.NotTried, match="left alone"):
                make()

        assert made.close() == []
        assert blobs.requests["delete_container"] == 0
    assert [message.text for message in fake.messages(f"{name}-000000")] == ["somebody's"]


@pytest.mark.parametrize("is_another", [True, False])
def test_after_a_lost_answer_only_a_queue_of_its_own_is_removed(fake, monkeypatch, is_another):
    monkeypatch.setattr(sandboxes, "uuid", Drawn)
    name = f"{sandboxes.PREFIX}00000000-000000"
    if is_another:
        fake.create_queue(name)
    bench = Sandbox(account_of(fake.connection_string), wait=fake.clock.advance)

    def lost(*arguments, **more):
        create_queue(*arguments, **more)
        raise sandboxes.ServiceError("the answer was lost")

    monkeypatch.setattr(sandboxes, "create_queue", lost)
    with pytest.raises(sandboxes.ServiceError, match="lost"):
        bench.queue()

    assert bench.close() == []
    assert fake.requests["delete_queue"] == (0 if is_another else 1)


def test_a_container_that_nobody_knows_of_is_told(fake):
    with FakeBlobService(containers=()) as blobs:
        blobs.faults.add(Fault("create_container", "reply_lost"))
        account = account_of(fake.connection_string)
        bench = Sandbox(account, replace(account, url=blobs.url), wait=fake.clock.advance)
        with pytest.raises(sandboxes.ServiceError):
            bench.folder()

        (told,) = bench.close()

        assert "nothing says whether it was made" in told
        assert blobs.requests["delete_container"] == 0


def test_trouble_on_the_way_is_no_difference(fake, bench):
    fake.faults.add(Fault("put", "busy_503"))

    assert found(bench, TrialOutcome.DIFFERS) == {}


def test_the_reports_hold_no_secret_no_account_and_no_id(fake, blobs, tmp_path, capsys):
    account = account_of(fake.connection_string)
    report = tmp_path / "certified"

    status = run(account, replace(account, url=blobs.url), report=report, wait=fake.clock.advance)

    assert status == 0
    printed = capsys.readouterr().out
    assert "about 400 requests, 2,000 at most, in 170 s" in printed
    page, data = (report.with_suffix(s).read_text(encoding="utf-8") for s in (".md", ".json"))
    for text in (page, data):
        assert fake.key not in text
        assert "fakeaccount" not in text
        assert "127.0.0.1" not in text
        assert "sig=" not in text
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", text)
    results = {row["key"]: row["result"] for row in json.loads(data)["rows"]}
    assert results == {each.key: "not tried" if each.untried else "holds" for each in ASSUMPTIONS}
    assert page.count("\n| `") == len(ASSUMPTIONS)
    assert "time of: dequeue" in page


EVIL = (
    '\x1b[2J <img src=x onerror=a()> [b](http://evil/"x) `c` | ![d](e)\n| f \u202e&amp; http://g/h'
)


def test_what_an_account_answers_is_neither_a_command_nor_markup(
    fake, tmp_path, monkeypatch, capsys
):
    def differs(bench):
        raise sandboxes.Mismatch(EVIL)

    monkeypatch.setitem(CHECKS, "date", differs)
    account = account_of(fake.connection_string)
    report = tmp_path / "certified"

    assert run(account, None, report=report, wait=fake.clock.advance) == 1

    for line in capsys.readouterr().out.split("\n"):
        assert line.isprintable()
    page, data = (report.with_suffix(s).read_text(encoding="utf-8") for s in (".md", ".json"))
    assert all(line.isprintable() for line in page.split("\n"))
    (row,) = (line for line in page.split("\n") if line.startswith("| `date`"))
    assert row.endswith(
        "| \\\\x1b\\[2J &lt;img src=x onerror=a()&gt; \\[b\\](… \\`c\\` \\| \\!\\[d\\](e)\\\\n\\| f"
        " \\\\u202e&amp;amp; … |"
    )
    assert data.isascii()
    (told,) = (row["detail"] for row in json.loads(data)["rows"] if row["key"] == "date")
    assert told.endswith("&amp; …")


def test_a_difference_is_an_exit_status_of_one(fake, blobs, monkeypatch, capsys):
    BREAKS["date"](monkeypatch)
    account = account_of(fake.connection_string)

    assert run(account, None, wait=fake.clock.advance) == 1
    assert "BAD  date: a Date in another form" in capsys.readouterr().out


def test_an_account_that_cannot_be_used_is_told_at_once(fake, monkeypatch, capsys):
    fake.permissions = "rp"
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)

    assert main(["certify"]) == 1
    assert "may not create a queue" in capsys.readouterr().err

    monkeypatch.delenv(ENVIRONMENT_VARIABLE)
    assert main(["certify"]) == 1
    assert "no credential" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, *more(signal.SIGINT)])
def test_what_was_made_is_removed_after_an_interruption(fake, number):
    fake.faults.add(Fault("dequeue", "slow", nth=20, seconds=600))
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_azqueue", "certify"],
        env={**os.environ, ENVIRONMENT_VARIABLE: fake.connection_string},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        fake.wait_until(lambda: fake.requests["dequeue"] >= 20, 60)
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()

    assert process.returncode == 130
    assert "interrupted: removing what was made" in told
    assert fake.requests["create"] > 5
    assert fake.requests["delete_queue"] == fake.requests["create"]
    for name in {entry.queue for entry in fake.log if entry.op == "create"}:
        with pytest.raises(Exception, match="QueueNotFound"):
            fake.count(name)


def test_the_rate_at_which_a_queue_throttles_is_measured(fake, monkeypatch, capsys):
    monkeypatch.setattr("spark_azqueue.commands.certify.measures.LOAD_REQUESTS", 500)
    fake.faults.add(Fault("put", "busy_503", every=100))
    account = account_of(fake.connection_string)

    run(account, None, with_load=True, wait=fake.clock.advance)

    told = capsys.readouterr().out
    assert "503 ServerBusy" in told
    assert re.search(r"with Retry-After: 0 of [456]\b", told)


def test_the_page_is_what_the_assumptions_say():
    page = (DOCS / "service.md").read_text(encoding="utf-8")

    assert page == with_assumptions(page), "run: python tools/reference.py"


def test_what_relies_on_an_assumption_exists():
    folders = ("spark_azqueue", "spark_azqueue/commands/doctor", "spark_azqueue/service", "")
    for each in ASSUMPTIONS:
        for path in re.findall(r"[\w/]+(?:\.py|\.md|/)(?=[ ,;:)]|$)", each.where):
            there = [(DOCS.parent / folder / path).exists() for folder in folders]
            assert any(there), f"{each.key}: {path}"
