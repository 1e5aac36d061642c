"""The table of commands and options: every option is taken, refused or named, by every command."""

import json
from pathlib import Path

import pytest
from file_logs import write_log
from reference import with_command_options

from spark_azqueue.commands.command_line import COMMANDS as WORDS
from spark_azqueue.commands.command_line import main
from spark_azqueue.commands.doctor import command_line
from spark_azqueue.commands.doctor.command_line import options_in
from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.account import ACCOUNT_OPTIONS, ENVIRONMENT_VARIABLE
from spark_azqueue.options.of_commands import COMMANDS, ROWS, Use, for_command, rest, use_of
from spark_azqueue.options.option import ParsedOptions
from spark_azqueue.options.parse import OPTIONS

ROOT = Path(__file__).resolve().parents[3]
QUEUE, OTHER = "orders", "later"
VALUES = {
    **dict.fromkeys(("createQueue", "settingsFromQueue", "ignoreExtraColumns"), "true"),
    **dict.fromkeys(("dequeueAhead", "deleteOnCommit", "failOnDataLoss"), "false"),
    "deleteBlob": "false",
    **dict.fromkeys(("peekMessages", "maxDequeueCount", "executorSlots", "txnVersion"), "7"),
    **dict.fromkeys(("minMessagesPerTrigger", "maxBatchesPerTrigger", "parallelism"), "7"),
    "maxPoisonMessages": "7",
    **dict.fromkeys(("maxPollInterval",), "2"),
    **dict.fromkeys(("startingAt", "endingAt", "writeAheadLogRetention"), "70"),
    **dict.fromkeys(("maxMessagesPerTrigger", "messagesPerPartition"), "64"),
    **dict.fromkeys(("visibilityTimeout", "maxTriggerDelay", "visibilityDelay"), "70"),
    "timeToLive": "8 days",
    **dict.fromkeys(("writeAheadLog", "readLog", "transactionLog"), "file:/log"),
    **dict.fromkeys(("queue", "poisonQueue", "defaultQueue", "rowErrorQueue"), "others"),
    "blobContainer": "others",
    "credential": "azureCli",
    "accountUrl": "https://shop.queue.core.windows.net",
    "blobAccountUrl": "https://shop.blob.core.windows.net",
    "messageEncoding": "base64",
    "bodyType": "binary",
    "maxBytesPerTrigger": "1m",
    "onUndecodable": "permissive",
    "poisonFormat": "copy",
    "queuePriority": "strict",
    "isolationLevel": "readCommitted",
    "deleteAfter": "log",
    "writeAheadLogStart": "earliest",
    "leaseOn": "executors",
    "largeBody": "blob",
    "operation": "update",
    "messageFormat": "cloudevents",
    "onStaleReceipt": "fail",
    "onRowError": "queue",
    "txnAppId": "nightly",
}
"""Of each option one value that is not its default; a text of any kind does for the others."""

OWN = {each.name for each in ACCOUNT_OPTIONS}


def value_of(name):
    return VALUES.get(name, "a:b")


def test_each_option_that_takes_no_text_of_any_kind_has_a_value_above():
    lacking = []
    for option in OPTIONS:
        try:
            option.parse(value_of(option.name))
        except ValueError:
            lacking.append(option.name)

    assert lacking == [], "give it one in VALUES, not its default"


@pytest.fixture
def shop(fake, monkeypatch):
    fake.create_queue(QUEUE)
    fake.create_queue(OTHER)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    return fake


def texts(fake, queue):
    return sorted(message.text for message in fake.messages(queue))


def test_every_command_and_every_option_is_in_the_table():
    assert {each.removesuffix(" --log") for each in COMMANDS} == WORDS.keys() - {"check", "ingest"}
    named = [name for row in ROWS for name in row.options] + list(rest())
    assert sorted(named) == sorted(option.name for option in OPTIONS)
    for row in ROWS:
        used = (*row.taken, *row.argument, *row.refused)
        assert len(set(used)) == len(used)
        assert set(used) <= set(COMMANDS)
        assert bool(row.refused) == bool(row.instead), "a refusal says what to do"


def test_the_page_has_the_table():
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert page == with_command_options(page), "run: python tools/reference.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_is_taken_refused_or_named(command):
    default = for_command(command, {}).taken
    for name in (option.name for option in OPTIONS):
        given, use = {name: value_of(name)}, use_of(command, name)
        if use is Use.REFUSED:
            with pytest.raises(InvalidOption, match=f"option '{name}' does not go with"):
                for_command(command, given)
            continue
        taken, idle = for_command(command, given)
        assert (name in idle) == (use is Use.IDLE)
        assert (name in taken.written) == (taken[name] != default[name]) == (use is Use.TAKEN)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_the_default_anyway_is_no_reason_to_refuse(command):
    for option in OPTIONS:
        if option.default is not None and use_of(command, option.name) is not Use.TAKEN:
            assert for_command(command, {option.name: option.shown}).idle == ()


class Read(ParsedOptions):
    """Options that note which of them a command reads by name."""

    names: set[str]

    def __getitem__(self, name):
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        self.names.add(name)
        return super().get(name, default)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("count", ["count", QUEUE]),
        ("peek", ["peek", QUEUE]),
        ("move", ["move", QUEUE, "--to", OTHER]),
        ("redrive", ["redrive", QUEUE, "--to", OTHER]),
        ("purge", ["purge", QUEUE]),
        ("export", ["export", QUEUE]),
        ("search", ["search", QUEUE, "--contains", "a"]),
    ],
)
def test_a_command_reads_all_that_it_takes(shop, monkeypatch, command, arguments):
    read = set()

    def recorded(name, given):
        taken, idle = for_command(name, given)
        options = Read(taken, taken.written)
        options.names = read
        return options, idle

    monkeypatch.setattr(command_line, "for_command", recorded)
    assert main(arguments) == 0
    wanted = {each.name for each in OPTIONS if use_of(command, each.name) is Use.TAKEN}
    assert wanted - OWN <= read


@pytest.mark.parametrize(
    "command", ["count", "peek", "move", "purge", "export", "search", "finish"]
)
@pytest.mark.parametrize("side", ["source", "sink"])
def test_the_files_of_a_query_go_with_every_command(shop, capsys, tmp_path, command, side):
    """The shipped files as they are, and with every option of a query's own run set."""
    more = {"move": ["--to", OTHER], "search": ["--contains", "a"]}.get(command, [])
    file = ["--options-file", str(ROOT / f"conf/{side}.options")]
    first = f"file:{tmp_path}/none" if command == "finish" else QUEUE
    status = 1 if command == "finish" else 0  # there is no log yet
    assert main([command, first, *more, *file]) == status
    assert "without effect" not in capsys.readouterr().err
    with_more = [part for name in rest() for part in ("--option", f"{name}={value_of(name)}")]
    assert main([command, first, *more, *file, *with_more]) == status
    assert f"without effect on {command}: {', '.join(rest())}" in capsys.readouterr().err


# ── send: the sink's options ──────────────────────────────────────────────────────────────────────


def options_file(tmp_path, **options):
    file = tmp_path / "sink.options"
    file.write_text("".join(f"{name} = {value}\n" for name, value in options.items()))
    assert options_in(file) == {name: str(value) for name, value in options.items()}
    return ["--options-file", str(file)]


def test_send_does_what_the_options_of_the_sink_say(shop, tmp_path, capsys):
    lines = tmp_path / "lines"
    lines.write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n')
    log = f"file:{tmp_path}/log"
    whole = {"transactionLog": log, "txnAppId": "nightly", "txnVersion": 7}
    whole |= {"timeToLive": "2 days", "visibilityDelay": 3_600}
    arguments = ["send", QUEUE, str(lines), *options_file(tmp_path, **whole)]

    assert main(arguments) == 0
    assert main([*arguments, "--json"]) == 0

    assert json.loads(capsys.readouterr().out.splitlines()[-1])["recorded_before"] is True
    assert texts(shop, QUEUE) == ["a", "b", "c"], "once, although it ran twice"
    assert shop.visible(QUEUE) == 0
    assert main([*arguments, "--txn-app-id", "another", "--delay", "0"]) == 0
    assert shop.visible(QUEUE) == 3, "a flag comes first, and another sender has its own numbers"
    shop.clock.advance(3_602)  # the service rounds a delay up to whole seconds
    assert shop.visible(QUEUE) == 6
    shop.clock.advance(3 * 86_400 - 3_600)
    assert texts(shop, QUEUE) == [], "two days, and the one more of a transaction"


def test_send_without_a_log_takes_delay_life_and_encoding(shop, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("a\n")
    file = options_file(tmp_path, timeToLive=60, visibilityDelay=30, messageEncoding="base64")
    assert main(["send", QUEUE, str(lines), "--raw", *file]) == 0
    assert (texts(shop, QUEUE), shop.visible(QUEUE)) == (["YQ=="], 0)
    shop.clock.advance(30)
    assert shop.visible(QUEUE) == 1
    shop.clock.advance(30)
    assert texts(shop, QUEUE) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(
            ({row.options[0]: value_of(row.options[0])}, f"option '{row.options[0]}' does not go")
            for row in ROWS
            if "send" in row.refused
        ),
        ({"messageEncoding": "auto"}, "messageEncoding=auto is for reading only"),
        ({"txnAppId": "nightly"}, "'txnAppId' is set, but there is no transaction"),
        ({"failOnDataLoss": "false"}, "'failOnDataLoss' is set, but there is no transaction"),
        ({"visibilityDelay": "90", "timeToLive": "60"}, "options 'visibilityDelay' and 'timeTo"),
    ],
)
def test_send_refuses_what_it_cannot_do(shop, tmp_path, capsys, options, said):
    lines = tmp_path / "lines"
    lines.write_text('{"text": "a"}\n')
    assert main(["send", QUEUE, str(lines), *options_file(tmp_path, **options)]) == 1
    assert said in capsys.readouterr().err
    assert texts(shop, QUEUE) == []


@pytest.mark.parametrize("options", [{"transactionLog": "file:/log"}, {"txnVersion": "7"}])
def test_a_log_of_transactions_needs_the_number_of_this_run(shop, tmp_path, capsys, options):
    with pytest.raises(SystemExit) as ended:
        main(["send", QUEUE, "-", *options_file(tmp_path, **options)])
    assert ended.value.code == 2
    assert "--transaction-log and --txn-version go together" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["move", QUEUE, "--to", OTHER], ["redrive", "orders-poison"]])
def test_a_move_refuses_the_options_of_new_messages(shop, tmp_path, capsys, command):
    file = options_file(tmp_path, timeToLive="60")
    assert main([*command, *file, "--execute"]) == 1
    assert "--time-to-live sets another" in capsys.readouterr().err


def test_a_replay_keeps_the_options_of_the_log_that_it_reads(shop, tmp_path):
    place = write_log(tmp_path / "wal", [["a"], ["b"]], 2)
    arguments = ["replay", "--log", place, "--batch", "1-2", "--into", QUEUE, "--execute"]
    assert main([*arguments, "--option", "failOnDataLoss=false"]) == 0
    assert texts(shop, QUEUE) == ["a", "b"]


# ── isolationLevel ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "arguments",
    [
        ["peek", QUEUE],
        ["export", QUEUE],
        ["search", QUEUE, "--contains", "a"],
        ["move", QUEUE, "--to", OTHER, "--execute"],
        ["redrive", QUEUE, "--to", OTHER, "--execute"],
    ],
)
@pytest.mark.parametrize("level", ["readCommitted", "readUncommitted"])
def test_what_a_transaction_may_have_abandoned_is_left(
    service, monkeypatch, capsys, arguments, level
):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, service.connection_string)
    service.create_queue(OTHER)
    service.put(QUEUE, "abandoned", ttl=2)
    service.put(QUEUE, "a message")
    more = ["--json", "--option", f"isolationLevel={level}"]
    assert main([*arguments, *more]) == 0
    seen = capsys.readouterr().out + "".join(texts(service, OTHER))
    assert "a message" in seen
    assert ("abandoned" in seen) == (level == "readUncommitted")
