"""The commands against the fake: what they do, what they print, and that no message is lost."""

import base64
import contextlib
import json
import time

import pytest
from accounts import account_of

from spark_azqueue.commands.command_line import COMMANDS, main
from spark_azqueue.commands.report import report
from spark_azqueue.commands.scan import LEASE_S, End, ScanCounts, TransferPlan
from spark_azqueue.commands.transfer import Transfer, TransferResult
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.service.envelopes import BodyEncoding, envelope_text, poison_envelopes
from spark_azqueue.service.messages import NEVER_EXPIRES, Message, QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.testing import Fault

FROM, TO = "orders-poison", "orders"


@pytest.fixture
def shop(fake, monkeypatch):
    """A fake with the two queues, which the environment names."""
    fake.create_queue(FROM)
    fake.create_queue(TO)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    return fake


def texts(fake, queue):
    return sorted(message.text for message in fake.messages(queue))


def put(fake, *bodies, queue=FROM, **given):
    for body in bodies:
        fake.put(queue, body, **given)


def by_sas(fake, letters):
    """A SAS with these letters, as options."""
    given = (f"accountUrl={fake.url}", f"sasToken={fake.sas(letters=letters)}")
    return [part for each in given for part in ("--option", each)]


def said(capsys):
    return json.loads(capsys.readouterr().out)


# ── looking ───────────────────────────────────────────────────────────────────────────────────────


def test_peek_shows_what_fits_and_changes_nothing(shop, capsys):
    put(shop, '{"id": 1}', '{"id": 2}', "other")

    assert main(["peek", FROM, "--where", "id=2"]) == 0

    out = capsys.readouterr().out
    assert '{"id": 2}' in out
    assert '{"id": 1}' not in out
    assert "3 visible messages looked at; 1 fit" in out
    assert shop.requests["dequeue"] == 0
    assert {message.dequeue_count for message in shop.messages(FROM)} == {0}


def test_peek_decodes_and_prints_json(shop, capsys):
    put(shop, base64.b64encode(b"hello").decode())

    assert main(["peek", FROM, "--json", "--option", "messageEncoding=base64"]) == 0

    told = said(capsys)
    assert (told["body"], told["text"], told["dequeue_count"]) == ("hello", "aGVsbG8=", 0)


def test_count_by_name_and_pattern(shop, capsys):
    put(shop, "a", "b")
    shop.clock.advance(3_600)

    assert main(["count", "orders*,orders", "--json"]) == 0

    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["queue"], each["messages"]) for each in told] == [(TO, 0), (FROM, 2)]
    assert told[0]["first_visible_age_seconds"] is None
    assert told[1]["first_visible_age_seconds"] >= 3_599

    assert main(["count", FROM]) == 0
    assert "first visible: 1 h old" in capsys.readouterr().out


def test_count_of_a_queue_that_is_not_there_counts_the_others(shop, capsys):
    assert main(["count", f"nothing,{TO}"]) == 1
    told = capsys.readouterr()
    assert "QUEUE_NOT_FOUND" in told.err
    assert TO in told.out
    assert main(["count", "nothing*"]) == 1


# ── dry runs ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "arguments",
    [
        ["redrive", FROM],
        ["move", FROM, "--to", TO, "--contains", "a"],
        ["purge", FROM],
        ["purge", FROM, "--each"],
        ["purge", FROM, "--contains", "a", "--json"],
    ],
)
def test_without_execute_nothing_is_changed(shop, capsys, arguments):
    put(shop, "a", "b")

    assert main(arguments) == 0

    assert texts(shop, FROM) == ["a", "b"]
    assert texts(shop, TO) == []
    assert shop.requests["dequeue"] == 0
    assert shop.statuses[("put", 201)] == shop.statuses[("delete", 204)] == 0
    out = capsys.readouterr().out
    assert "add --execute" in out or json.loads(out)["executed"] is False


def test_a_dry_run_shows_what_is_meant(shop, capsys):
    put(shop, *(f"a-{number}" for number in range(7)), "b")
    main(["redrive", FROM, "--contains", "a-"])
    out = capsys.readouterr().out
    assert f"Of the first 8 visible ones, 7 would be moved back to '{TO}'" in out
    assert "a-0" in out
    assert "and 2 more" in out


def test_a_dry_run_shows_no_more_than_were_asked_for(shop, capsys):
    put(shop, "a", "b", "c")
    main(["redrive", FROM, "--max", "2"])
    assert (
        f"Of the first 3 visible ones, 2 would be moved back to '{TO}'" in capsys.readouterr().out
    )


# ── moving ────────────────────────────────────────────────────────────────────────────────────────

ODD = ["", " ", "a\r\nb\tc", "<&>\"'", "ü€😀", "aGVsbG8=", "x" * 65_536, "\ufffd"]


def test_redrive_moves_everything_unchanged(shop, capsys):
    many = [f"message {number}" for number in range(100)]
    put(shop, *many, *ODD)

    assert main(["redrive", FROM, "--execute"]) == 0

    assert texts(shop, TO) == sorted(many + ODD)
    assert texts(shop, FROM) == []
    out = capsys.readouterr().out
    assert "108 of 108 messages of 'orders-poison' moved back to 'orders'." in out


def test_redrive_takes_bodies_out_of_their_envelopes(shop, capsys):
    stored = envelope_text(TO, "id", "why", "e30=", BodyEncoding.STORED)
    text, other = (envelope_text(TO, each, "why", "{}", BodyEncoding.TEXT) for each in "ab")
    encoded = base64.b64encode(other.encode()).decode()
    put(shop, stored, text, encoded, "bare")

    arguments = ["redrive", FROM, "--execute", "--json", "--option", "messageEncoding=base64"]
    assert main(arguments) == 0

    assert texts(shop, TO) == ["bare", "e30=", "e30=", "e30="]
    assert said(capsys)["opened"] == 3


def test_redrive_takes_no_field_from_the_json_of_a_user(shop, capsys):
    fields = {"queue": TO, "message_id": "1", "body": "tea", "body_encoding": "text", "amount": 3}
    own = [json.dumps(fields), json.dumps(fields, separators=(",", ":"))]
    encoded = base64.b64encode(own[0].encode()).decode()
    put(shop, *own, encoded)

    assert main(["redrive", FROM, "--execute", "--json"]) == 0

    assert texts(shop, TO) == sorted([*own, encoded])
    assert said(capsys)["opened"] == 0


def test_an_envelope_to_which_somebody_added_a_field_stays(shop, capsys):
    envelope = envelope_text(TO, "id", "why", "tea", BodyEncoding.TEXT, amount=3)
    put(shop, envelope)

    assert main(["redrive", FROM, "--execute", "--json"]) == 1

    assert said(capsys)["closed"] == 1
    assert (texts(shop, FROM), texts(shop, TO)) == ([envelope], [])


def test_envelopes_with_parts_of_a_body_stay(shop, capsys):
    at = 1_700_000_000_000_000
    parts = poison_envelopes(Message(QueueRef("a", TO), "id", "x\x01" * 40_000, at, 0, 4), "why")
    put(shop, *parts)

    assert main(["redrive", FROM, "--execute", "--json"]) == 1

    assert len(parts) == said(capsys)["closed"] > 1
    assert (len(texts(shop, FROM)), texts(shop, TO)) == (len(parts), [])


def test_envelopes_go_as_they_are_if_asked_and_in_a_move(shop):
    envelope = envelope_text(TO, "id", "why", "hello", BodyEncoding.STORED)
    put(shop, envelope)
    assert main(["redrive", FROM, "--as-is", "--execute"]) == 0
    assert texts(shop, TO) == [envelope]
    assert main(["move", TO, "--to", FROM, "--execute"]) == 0
    assert texts(shop, FROM) == [envelope]


def test_an_envelope_that_cannot_be_opened_stays(shop, capsys):
    put(shop, envelope_text(TO, "id", "why", "//8=", BodyEncoding.BASE64))
    assert main(["redrive", FROM, "--execute"]) == 1
    assert "stay: envelopes that cannot be opened" in capsys.readouterr().out
    assert (len(texts(shop, FROM)), texts(shop, TO)) == (1, [])


def test_an_envelope_in_base64_stays_until_somebody_says_that_it_is(shop, capsys):
    envelope = envelope_text(TO, "id", "why", "{}", BodyEncoding.TEXT)
    encoded = base64.b64encode(envelope.encode()).decode()
    put(shop, encoded, "e30=")

    assert main(["redrive", FROM, "--execute", "--json"]) == 1
    assert said(capsys)["closed"] == 1
    assert (texts(shop, FROM), texts(shop, TO)) == ([encoded], ["e30="])

    assert main(["redrive", FROM, "--execute", "--option", "messageEncoding=base64"]) == 0
    assert texts(shop, TO) == ["e30=", "e30="]


def test_a_run_that_sees_only_newer_messages_says_that_it_ended_and_may_not_be_done(capsys):
    result = TransferResult(ScanCounts(looked=150, newer=150), End.NEWER)
    assert report(result, "messages", {}, is_json=False) == 1
    told = capsys.readouterr().out
    assert "150  stay: they were put after the start of the run" in told
    assert "Ended after 4 answers with only newer messages" in told

    assert report(result, "messages", {}, is_json=True) == 1
    assert said(capsys)["ended"] == "newer"


def test_one_call_says_that_it_begins_and_what_it_did(shop, capsys):
    put(shop, "a", "b")
    assert main(["purge", FROM, "--execute", "--json"]) == 0
    told = capsys.readouterr()
    counts = json.loads(told.out)
    assert (counts["messages_before"], counts["done"], counts["ended"]) == (2, 2, "done")
    assert "Clearing 'orders-poison'" in told.err


def test_what_does_not_fit_is_released(shop, capsys):
    put(shop, *(f"a-{number}" for number in range(50)), *(f"b-{number}" for number in range(50)))

    assert main(["move", FROM, "--to", TO, "--contains", "b-", "--execute", "--json"]) == 0

    told = said(capsys)
    assert (told["done"], told["other"], told["looked"]) == (50, 50, 100)
    assert {text[0] for text in texts(shop, TO)} == {"b"}
    assert shop.visible(FROM) == 50
    assert {message.dequeue_count for message in shop.messages(FROM)} == {1}


def test_what_is_too_young_stays(shop, capsys):
    put(shop, "old")
    shop.clock.advance(100)
    put(shop, "young")

    assert main(["redrive", FROM, "--older-than", "50", "--execute", "--json"]) == 0

    assert said(capsys)["young"] == 1
    assert (texts(shop, TO), texts(shop, FROM)) == (["old"], ["young"])
    assert shop.visible(FROM) == 1


def test_a_copy_keeps_what_is_left_of_the_life(shop):
    put(shop, "short", ttl=1_000)
    put(shop, "endless", ttl=NEVER_EXPIRES)
    shop.clock.advance(100)
    now = shop.clock.now()

    assert main(["redrive", FROM, "--execute"]) == 0

    left = {message.text: message.expiration - now for message in shop.messages(TO)}
    assert 899 <= left["short"] <= 902
    assert left["endless"] > 10**9


def test_a_life_is_counted_by_the_services_clock_also_if_an_answer_has_no_date(shop, monkeypatch):
    # Given a clock here that is a day ahead
    monkeypatch.setattr("spark_azqueue.service.queues.calls.answered_at", lambda answer: None)
    monkeypatch.setattr("time.time", lambda now=time.time: now() + 86_400)
    account = account_of(shop.connection_string)
    source, target = (QueueRef(account.name, name) for name in (FROM, TO))
    put(shop, "short", ttl=1_000)

    with contextlib.closing(QueueClient(account)) as client:
        Transfer(client, TransferPlan(source, int(shop.clock.now() * 1_000_000), target)).run()

    (message,) = shop.messages(TO)
    assert 995 <= message.expiration - shop.clock.now() <= 1_002


def test_a_time_to_live_can_be_given(shop):
    put(shop, "a", ttl=NEVER_EXPIRES)
    assert main(["redrive", FROM, "--time-to-live", "1 day", "--execute"]) == 0
    (message,) = shop.messages(TO)
    assert message.expiration - message.insertion == 86_400


def test_at_most(shop, capsys):
    put(shop, *map(str, range(50)))
    assert main(["redrive", FROM, "--max", "40", "--execute"]) == 0
    assert (len(texts(shop, TO)), shop.visible(FROM)) == (40, 10)


def test_a_rate_takes_few_at_once(shop):
    put(shop, *map(str, range(30)))
    assert main(["redrive", FROM, "--rate", "40", "--execute"]) == 0
    assert len(texts(shop, TO)) == 30
    assert shop.requests["dequeue"] == 4  # ten each, and one that is empty


# ── what may go wrong ─────────────────────────────────────────────────────────────────────────────


def test_a_lost_answer_to_a_put_is_told(shop, capsys):
    put(shop, *map(str, range(20)))
    shop.faults.add(Fault("put", "reply_lost", queue=TO, nth=5, times=1))

    assert main(["redrive", FROM, "--execute", "--json"]) == 1

    told = said(capsys)
    assert (told["done"], told["maybe_twice"]) == (20, 1)
    assert set(texts(shop, TO)) == set(map(str, range(20)))
    assert texts(shop, FROM) == []


def test_each_lost_answer_to_a_put_is_counted(shop, capsys):
    put(shop, "a")
    # The first put is the check of the permission.
    shop.faults.add(*(Fault("put", "reply_lost", queue=TO, nth=nth) for nth in (2, 3, 4)))

    assert main(["redrive", FROM, "--execute", "--json"]) == 1

    told = said(capsys)
    assert (told["done"], told["maybe_twice"]) == (1, 3)
    assert texts(shop, TO) == ["a"] * 4


def test_a_lost_answer_to_a_delete_of_purge_is_told(shop, capsys):
    """Its repeat is refused: it is gone, or another consumer has it since."""
    put(shop, *map(str, range(20)))
    shop.faults.add(Fault("delete", "reply_lost", queue=FROM, nth=5, times=1))

    assert main(["purge", FROM, "--each", "--execute", "--json"]) == 1

    told = said(capsys)
    assert (told["done"], told["maybe_left"], told["maybe_twice"]) == (20, 1, 0)


def test_a_put_that_fails_deletes_nothing(shop, capsys):
    put(shop, *map(str, range(20)))
    shop.faults.add(Fault("put", "forbidden", queue=TO, nth=6))

    assert main(["redrive", FROM, "--execute", "--json"]) == 1

    told = capsys.readouterr()
    result = json.loads(told.out)
    assert (result["ended"], result["maybe_twice"], result["twice"]) == ("failed", 0, 0)
    assert "[AZQUEUE_PERMISSION_MISSING]" in told.err
    assert sorted(texts(shop, TO) + texts(shop, FROM)) == sorted(map(str, range(20)))
    assert shop.visible(FROM) == len(texts(shop, FROM)) > 0


@pytest.mark.parametrize("kind", ["receipt_mismatch", "not_found"])
def test_a_message_that_another_consumer_has_is_told_and_its_copy_stays(shop, capsys, kind):
    put(shop, "a", "b", "c")
    shop.faults.add(Fault("delete", kind, queue=FROM, nth=2))

    assert main(["redrive", FROM, "--execute"]) == 1

    assert "1  are copied and not deleted" in capsys.readouterr().out
    assert texts(shop, TO) == ["a", "b", "c"]
    assert len(texts(shop, FROM)) == 1


def test_a_message_that_comes_back_after_its_copy_is_only_deleted(shop, capsys):
    # Given a message that is visible to others while it is leased, and whose delete was refused
    put(shop, "a")
    shop.faults.add(Fault("dequeue", "delivered_twice", nth=1))
    shop.faults.add(Fault("delete", "receipt_mismatch", nth=1))

    assert main(["redrive", FROM, "--execute", "--json"]) == 0

    told = said(capsys)
    assert (told["done"], told["twice"]) == (1, 0)
    assert (texts(shop, TO), texts(shop, FROM)) == (["a"], [])


def test_a_lost_answer_to_a_delete_counts_once(shop, capsys):
    put(shop, "a", "b")
    shop.faults.add(Fault("delete", "reply_lost", queue=FROM, nth=1, times=1))

    assert main(["redrive", FROM, "--execute", "--json"]) == 1

    told = said(capsys)
    assert (told["done"], told["maybe_twice"], told["taken"]) == (2, 1, 0)
    assert (texts(shop, TO), texts(shop, FROM)) == (["a", "b"], [])


def test_a_lost_answer_to_a_dequeue_is_told_and_loses_nothing(shop, capsys):
    put(shop, *map(str, range(40)))
    shop.faults.add(Fault("dequeue", "reply_lost", nth=1, times=1))

    assert main(["redrive", FROM, "--execute", "--json"]) == 1

    told = said(capsys)
    assert (told["done"], told["maybe_hidden"]) == (8, 32)
    shop.clock.advance(LEASE_S)
    assert main(["redrive", FROM, "--execute"]) == 0
    assert texts(shop, TO) == sorted(map(str, range(40)))


def test_a_damaged_body_stays(shop, capsys):
    put(shop, "a", "b")
    shop.faults.add(Fault("dequeue", "broken_xml", nth=1))

    assert main(["purge", FROM, "--each", "--execute", "--json"]) == 1

    assert said(capsys)["damaged"] == 1
    assert len(texts(shop, FROM)) == 1


@pytest.mark.parametrize("command", ["move", "redrive", "send"])
def test_a_target_is_created_if_asked_to_and_not_by_a_dry_run(shop, tmp_path, command):
    put(shop, "a", "b")
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    run = ["send", "new", str(file), "--raw"]
    if command != "send":
        run = [command, FROM, "--to", "new"]
    assert main(run) == 1
    run += ["--option", "createQueue=true"]
    if command != "send":
        assert main(run) == 0
        assert shop.requests["create"] == 0
        run.append("--execute")

    assert main(run) == 0
    assert texts(shop, "new") == ["a", "b"]


@pytest.mark.parametrize("missing", ["nothing", "nothing-poison"])
def test_a_queue_that_is_not_there_is_told_before_anything_is_leased(shop, capsys, missing):
    put(shop, "a")
    target = ["--to", missing] if missing == "nothing" else ["--to", TO]
    source = FROM if missing == "nothing" else missing
    assert main(["move", source, *target, "--execute"]) == 1
    told = capsys.readouterr().err
    assert "AZQUEUE_QUEUE_NOT_FOUND" in told
    assert "correct the name of the queue, or create it" in told
    assert shop.requests["dequeue"] == 0


@pytest.mark.parametrize("letters", ["rp", "rpa", "rpu"])
def test_a_missing_permission_is_told_before_anything_is_leased(shop, capsys, letters, monkeypatch):
    monkeypatch.delenv(ENVIRONMENT_VARIABLE)
    put(shop, "a")
    assert main(["redrive", FROM, "--execute", *by_sas(shop, letters)]) == 1
    assert "AZQUEUE_PERMISSION_MISSING" in capsys.readouterr().err
    assert shop.requests["dequeue"] == 0


# ── purging ───────────────────────────────────────────────────────────────────────────────────────


def test_purge_clears_by_one_call(shop, capsys):
    put(shop, *map(str, range(70)))
    put(shop, "delayed", delay=60)
    shop.faults.add(Fault("clear", "error_500", times=2))

    assert main(["purge", FROM, "--execute"]) == 0

    assert shop.count(FROM) == 0
    assert shop.requests["dequeue"] == 0
    assert "cleared of about 71 messages" in capsys.readouterr().out


def test_purge_of_some(shop):
    put(shop, "a1", "b1", "a2")
    assert main(["purge", FROM, "--contains", "a", "--execute"]) == 0
    assert texts(shop, FROM) == ["b1"]
    assert shop.requests["clear"] == 0
    assert shop.visible(FROM) == 1


def test_purge_leaves_what_another_consumer_has(shop, capsys):
    put(shop, "a")
    shop.faults.add(Fault("delete", "receipt_mismatch"))
    assert main(["purge", FROM, "--each", "--execute", "--json"]) == 1
    assert said(capsys)["taken"] == 1


def test_a_sas_of_one_queue_may_not_clear_and_is_told_what_to_do(shop, capsys, monkeypatch):
    monkeypatch.delenv(ENVIRONMENT_VARIABLE)
    put(shop, "a")
    options = by_sas(shop, "rup")
    assert main(["purge", FROM, "--execute", *options]) == 1
    assert "--each" in capsys.readouterr().err
    assert main(["purge", FROM, "--each", "--execute", *options]) == 0
    assert texts(shop, FROM) == []


# ── the command line ──────────────────────────────────────────────────────────────────────────────

SECRET = "sig=c2VjcmV0LXNpZ25hdHVyZQ"


@pytest.mark.parametrize(
    "arguments",
    [
        ["peek"],
        ["peek", SECRET],
        ["peek", "orders", SECRET],
        ["peek", "orders", "--number", "33"],
        ["peek", "orders", "--where", "$..x"],
        ["count", "Orders"],
        ["redrive", "orders"],
        ["move", "orders"],
        ["move", "orders", "--to", "orders"],
        ["redrive", "orders", "--to", "orders"],
        ["move", "orders", "--to", "others", "--rate", "0"],
        ["move", "orders", "--to", "others", "--exec"],
        ["purge", "orders", "--older-than", "soon"],
        ["purge", "orders", "--contains", "", "--execute"],
        ["purge", "orders", "--reason", "", "--execute"],
        ["purge", "orders", "--option", SECRET.replace("=", "")],
    ],
)
def test_a_malformed_command_line_is_refused_and_not_repeated(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "c2VjcmV0" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"python -m spark_azqueue {name}" in capsys.readouterr().out


def test_one_help_names_all_commands(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)


def test_no_credential_is_told(capsys, monkeypatch):
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    assert main(["peek", "orders"]) == 1
    assert "no credential" in capsys.readouterr().err
