"""The doctor: what it finds, what it advises, and what it never shows."""

import base64
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, quote

import pytest
from refs import ORDERS

from spark_azqueue.commands.doctor import installation as surroundings
from spark_azqueue.commands.doctor.command_line import main
from spark_azqueue.commands.doctor.finding import Finding
from spark_azqueue.commands.doctor.queue_checks import examine, judge_encoding
from spark_azqueue.options.choices import Side
from spark_azqueue.service.encoding import BodyType, Encoding
from spark_azqueue.service.messages import Message
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.testing import Fault


def message(text, *, intact=True):
    return Message(ORDERS, "id-1", text, 0, 0, 0, intact=intact)


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def test_what_the_quickstart_installs_has_no_problem_and_its_page_says_which_marks_may_be_there(
    monkeypatch,
):
    monkeypatch.setattr(surroundings, "_version", lambda package: None)
    quickstart = (Path(__file__).parents[3] / "docs" / "quickstart.md").read_text(encoding="utf-8")

    extras = surroundings.extras()  # `pip install '.[spark]'` brings none

    assert (extras.good, "not installed: prometheus" in extras.text) == (None, True)
    assert "begin with `ok`" not in quickstart
    assert "begin with `BAD` (`-` is a note" in quickstart


def test_it_knows_databricks_and_fabric_and_says_nothing_elsewhere(monkeypatch):
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    monkeypatch.delitem(sys.modules, "notebookutils", raising=False)
    assert list(surroundings.hosted()) == []

    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19.1")
    monkeypatch.setitem(sys.modules, "notebookutils", ModuleType("notebookutils"))
    databricks, fabric = surroundings.hosted()

    assert (databricks.good, databricks.text) == (None, "Databricks Runtime 19.1")
    assert "docs/databricks.md" in databricks.advice
    assert fabric.text.startswith("Microsoft Fabric")
    assert "docs/fabric.md" in fabric.advice
    assert {databricks, fabric} <= set(surroundings.surroundings())


# ── encodings ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("texts", "encoding", "kind", "good", "words"),
    [
        (["hello"], Encoding.NONE, BodyType.STRING, True, "fit messageEncoding=none"),
        ([], Encoding.NONE, BodyType.STRING, None, "no visible message"),
        ([encoded("hello, world")], Encoding.BASE64, BodyType.STRING, True, "base64"),
        (["{}", "{}"], Encoding.BASE64, BodyType.STRING, False, "messageEncoding=none fits all"),
        (["{}", "e30="], Encoding.BASE64, BodyType.STRING, False, "messageEncoding=auto decodes"),
        (["{}", "/////w=="], Encoding.BASE64, BodyType.STRING, False, "onUndecodable says"),
        ([encoded("hello, world")], Encoding.NONE, BodyType.STRING, None, "look like base64"),
        ([encoded("hello, world"), "{}"], Encoding.NONE, BodyType.STRING, None, "=auto decodes"),
        (["abcd"], Encoding.NONE, BodyType.STRING, True, "fit"),  # base64, and a word
        (["/////w=="], Encoding.BASE64, BodyType.STRING, False, "bodyType=binary"),
        (["/////w=="], Encoding.BASE64, BodyType.BINARY, True, "fit"),
    ],
)
def test_encodings(texts, encoding, kind, good, words):
    found = judge_encoding("orders", [message(text) for text in texts], encoding, kind)

    assert found.good is good
    assert words in f"{found.text} {found.advice}"


def test_a_damaged_body_is_bad_and_no_body_shows():
    bodies = [message("my secret body", intact=False), message("other")]

    found = judge_encoding("orders", bodies, Encoding.NONE, BodyType.STRING)

    assert found.good is False
    assert "my secret body" not in repr(found)


# ── queues ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def service(fake):
    fake.create_queue("orders")
    fake.put("orders", "hello")
    return fake


def look(options, side=Side.SOURCE):
    return list(examine(options, side))


def with_sas(fake, letters):
    sas = fake.sas(letters=letters)
    return {"accountUrl": fake.url, "sasToken": sas, "queue": "orders"}


def assert_hidden(options, found):
    """No finding shows the signature, escaped or not."""
    (signature,) = parse_qs(options["sasToken"])["sig"]
    for form in (signature, quote(signature, "")):
        assert form not in repr(found)


def test_a_good_queue_is_good_and_left_as_it_was(service):
    found = look({"secret.connectionString": service.connection_string, "queue": "orders"})

    assert {finding.good for finding in found} == {True}
    assert "about 1 messages" in repr(found)
    assert (service.count("orders"), service.visible("orders")) == (1, 1)
    assert service.requests["dequeue"] == 0


@pytest.mark.parametrize(
    ("letters", "side", "bad"),
    [
        ("raup", Side.SOURCE, []),
        ("up", Side.SOURCE, []),
        ("rap", Side.SOURCE, ["may not update"]),
        ("rau", Side.SOURCE, ["may not delete and dequeue"]),
        ("a", Side.SINK, []),
        ("rup", Side.SINK, ["may not put"]),
    ],
)
def test_what_a_credential_may_not_do(service, letters, side, bad):
    options = with_sas(service, letters)
    found = look(options, side)

    told = [finding for finding in found if finding.good is False]
    assert len(told) == len(bad)
    for finding, words in zip(told, bad, strict=True):
        assert words in finding.text
        assert "The credential is good, but this needs the SAS letter" in finding.advice
    assert_hidden(options, found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queue": "ordres"}, "Create the queue"),
        ({"queue": "Orders"}, "a queue name"),
        ({"queue": ""}, "option 'queue'"),
        ({"sasToken": "nonsense"}, "no 'sig=' in it"),
        ({"credential": "default"}, "more than one credential"),
    ],
)
def test_what_does_not_work_is_told_with_advice(service, change, words):
    options = with_sas(service, "raup")
    found = look(options | change)

    assert [finding.good for finding in found].count(False) == 1
    assert words in repr(found)
    assert_hidden(options, found)


def test_a_queue_that_is_to_be_created_is_no_problem(service):
    found = look(with_sas(service, "raup") | {"queue": "later", "createQueue": "true"})

    assert found[-1] == Finding(
        None, "queue 'later' does not exist; createQueue=true would create it"
    )
    assert service.requests["create"] == 0


def test_an_account_that_cannot_be_reached(monkeypatch):
    monkeypatch.setattr(
        "spark_azqueue.commands.doctor.queue_checks._PATIENT", lambda ask, *given: ask(*given)
    )
    found = look({"accountUrl": "http://127.0.0.1:1/a", "sasToken": "sig=x", "queue": "orders"})

    assert "no answer" in found[-1].advice


def test_a_credential_that_does_not_work_is_told_once_for_all_queues():
    options = {
        "accountUrl": "https://acc.queue.core.windows.net",
        "credentialProvider": "no_such_module:make",
        "queue": "orders,refunds",
    }
    found = look(options)

    assert [finding.good for finding in found] == [True, False]
    assert found[1].text == "the credential does not work"


def test_the_client_that_is_handed_in_is_used_and_closed(service):
    options = {"secret.connectionString": service.connection_string, "queue": "orders,ordres"}
    closed = []

    class Noted(QueueClient):
        def close(self):
            super().close()
            closed.append(self)

    found = list(examine(options, Side.SOURCE, Noted))

    assert len(closed) == 1
    assert "Create the queue" in found[-1].advice


def test_a_pattern_shows_what_it_matches_and_each_queue_is_checked(service):
    service.create_queue("returns-1")
    service.create_queue("returns-2")
    found = look({"secret.connectionString": service.connection_string, "queue": "returns-*"})

    assert found[1].good
    assert found[1].text == "2 queues match 'returns-*': returns-1, returns-2"
    assert {f"queue 'returns-{n}': may delete and dequeue" for n in (1, 2)} <= {
        finding.text for finding in found
    }


def test_a_pattern_that_matches_nothing_is_noted(service):
    found = look({"secret.connectionString": service.connection_string, "queue": "nothing-*"})

    assert [finding.good for finding in found] == [True, None]
    assert found[1].text == "no queue matches 'nothing-*' now"


def test_a_credential_that_may_not_list_is_bad_for_a_pattern(service):
    service.faults.add(Fault("list", "forbidden"))
    found = look({"secret.connectionString": service.connection_string, "queue": "orders,o*"})

    assert found[1].good is False
    assert found[1].text == "queues that match 'o*' are not known"
    assert "name each queue" in found[1].advice
    assert any(finding.text.startswith("queue 'orders'") for finding in found)


# ── what is installed ─────────────────────────────────────────────────────────────────────────────


def test_no_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert surroundings.java().good is False

    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    found = surroundings.java()
    assert found.good is False
    assert found.text.startswith("Java 11.0.2")

    java.write_text("#!/bin/sh\necho 'openjdk version \"21\" 2023-09-19' >&2\n")
    assert surroundings.java().good is True
    java.write_text("#!/bin/sh\nexit 1\n")
    assert "could not determine the version of" in surroundings.java().text


@pytest.mark.parametrize(
    ("versions", "good"),
    [
        ({"pyspark": "4.3.0"}, True),
        ({"pyspark-client": "4.2.0"}, True),
        ({"pyspark": "4.1.4"}, None),
        ({"pyspark": "3.5.9"}, False),
        ({}, False),
    ],
)
def test_versions_of_spark(monkeypatch, versions, good):
    monkeypatch.setattr(surroundings, "_version", versions.get)
    monkeypatch.setattr(surroundings, "_imported_version", lambda module: None)

    assert surroundings.spark().good is good


def test_a_module_that_breaks_sparks_search_is_named(monkeypatch, tmp_path):
    (tmp_path / "pyspark_aaa_broken.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    found = surroundings.discovery()

    assert found.good is False
    assert "pyspark_aaa_broken raises RuntimeError" in found.text


def test_it_speaks_where_libraries_are_missing():
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pycurl':\n"
        "            raise ImportError('blocked', name=name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "from spark_azqueue.commands.doctor.command_line import main\n"
        "sys.exit(main(['orders']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 1, done.stderr
    assert "no queue was checked: the module pycurl" in done.stdout
    assert 'BAD  format("azqueue") is not found: it needs the packages missing above' in done.stdout


def test_here_everything_is_found():
    assert surroundings.discovery().good
    assert "azure-identity" in surroundings.libraries().text


REQUIRES = [
    "certifi",
    'prometheus-client>=0.20; extra == "prometheus"',
    "opentelemetry-api>=1.30; extra == 'opentelemetry'",
    "pytest; extra == 'test'",
]


def test_extras_are_named_with_what_needs_them(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: REQUIRES)
    monkeypatch.setattr(surroundings, "_version", lambda name: "1.0")
    everything = surroundings.extras()
    monkeypatch.setattr(surroundings, "_version", {"prometheus-client": "1.0", "pytest": "9.0"}.get)
    some = surroundings.extras()

    assert everything.good is True
    assert "prometheus (prometheus-client 1.0), opentelemetry" in everything.text
    assert some.good is None
    assert some.text == "extras: prometheus (prometheus-client 1.0); not installed: opentelemetry"
    assert "spark_azqueue.metrics.opentelemetry: pip install opentelemetry-api" in some.advice
    monkeypatch.setattr(surroundings, "_version", lambda name: None)
    assert surroundings.extras().text.startswith("extras: none; not installed: prom")


def test_a_doubtful_value_is_noted(service):
    given = {"secret.connectionString": service.connection_string, "queue": "orders"}
    first, *others = look({**given, "visibilityTimeout": "30000"})

    assert first.good is None
    assert "8.3 hours" in first.text
    assert {each.good for each in others} == {True}


# ── the command line ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def java_is_there(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr(surroundings, "java", lambda: Finding(True, "Java"))


@pytest.mark.usefixtures("java_is_there")
def test_the_exit_status_says_good_or_bad(service, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", service.connection_string)
    options = tmp_path / "options"
    options.write_text("# how bodies are stored\nmessageEncoding = base64\n\n")

    assert main([]) == 0
    assert main(["orders"]) == 0
    assert main(["ordres"]) == 1
    assert main(["orders", "--options-file", str(options)]) == 1
    assert main(["orders", "--options-file", str(options), "--option=messageEncoding=none"]) == 0
    assert main(["orders", "--as", "sink"]) == 0
    assert service.key not in "".join(capsys.readouterr())


@pytest.mark.usefixtures("java_is_there")
@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_connection_string_in_place_of_the_queue_is_not_repeated(
    service, monkeypatch, capsys, side
):
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", service.connection_string)

    assert main([service.connection_string, "--as", side]) == 1

    said = "".join(capsys.readouterr())
    assert service.key not in said
    assert "looks like a connection string, which the option 'secret.connectionString'" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--option", "c2VjcmV0LXNpZ25hdHVyZQ=="],
        ["--sasToken", "sig=c2VjcmV0LXNpZ25hdHVyZQ"],
        ["orders", "sig=c2VjcmV0LXNpZ25hdHVyZQ"],
    ],
)
def test_a_command_line_it_cannot_read_is_not_repeated(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert "c2VjcmV0" not in "".join(capsys.readouterr())


def test_an_options_file_without_end_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["orders", "--options-file", "/dev/zero"])

    assert ended.value.code == 2
    assert "--options-file has more than 1,000,000 characters" in capsys.readouterr().err
