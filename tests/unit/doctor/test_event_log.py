"""What Spark may write of statements: the shipped pattern, and what the doctor says of another."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from spark_azqueue import redaction_conf
from spark_azqueue.commands.doctor.redaction import PATTERNS, STATEMENTS
from spark_azqueue.commands.doctor.statements import (
    ENABLED,
    judge,
    of_defaults,
    of_server,
    read_properties,
    shown_through,
)
from spark_azqueue.options.parse import OPTIONS

DEFAULTS = Path(__file__).resolve().parents[3] / "conf" / "spark-defaults.conf"
SECRETS = [option.name for option in OPTIONS if option.secret]
VALUE = "dG9wLXNlY3JldA~.-_"
BETWEEN = {
    "a tab": "\t",
    "a line break": "\n",
    "two signs": " == ",
    "a comment": " /* it's a comment */ ",
    "a comment to the end of the line": " -- it's, a comment\n",
    "a comment and a sign": '/*"*/ = /**/',
    "much": " " * 5_000,
}
SHAPES = {
    "a map in Connect's text": 'options {{\n      key: "{name}"\n      value: "{value}"\n    }}\n',
    "SQL": "OPTIONS (`{name}` '{value}', queue 'orders')",
    "SQL, keys in quotes": "OPTIONS ('{name}'='{value}', queue 'orders')",
    "SQL, an equals sign": 'OPTIONS ({name} = "{value}")',
    "SQL, a raw string": "OPTIONS ({name} R'{value}')",
    "SQL in Connect's text": "query: \"OPTIONS (`{name}` \\'{value}\\', queue \\'orders\\')\"",
    "SQL with double quotes in Connect's text": 'query: "OPTIONS ({name} = \\"{value}\\")"',
    "SQL on many lines in Connect's text": "query: \"OPTIONS (\\n {name} \\'{value}\\'\\n)\"",
    **{
        f"SQL, {name} between": f"OPTIONS (`{{name}}`{between}'{{value}}', queue 'orders')"
        for name, between in BETWEEN.items()
    },
    **{
        f"{name} in Connect's text": f"query: \"OPTIONS ({{name}}{between}\\'{{value}}\\')\""
        for name, between in {
            "a tab": "\\t",
            "a line break": "\\r\\n",
            "a comment": " -- it\\'s\\n",
            "two signs": " == ",
        }.items()
    },
    "SQL, two texts that are one": "OPTIONS ({name} 'a' '{value}')",
    "SQL, two texts on two lines": "OPTIONS ({name} 'a'\n'{value}')",
    "a text cut short": "query: \"OPTIONS (`{name}` \\'{value}",
}


def hidden(text: str) -> str:
    return re.sub(STATEMENTS, "*********(redacted)", text)


@pytest.mark.parametrize("name", [*SECRETS, *(name.lower() for name in SECRETS)])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_value_of_a_secret_option_is_hidden(name, shape):
    text = SHAPES[shape].format(name=name, value=VALUE)

    assert VALUE in text
    assert VALUE not in hidden(text)


@pytest.mark.parametrize("shape", ["SQL", "a map in Connect's text", "SQL in Connect's text"])
def test_the_rest_of_the_statement_stays(shape):
    text = "before " + SHAPES[shape].format(name="clientSecret", value=VALUE) + "after"

    assert hidden(text).startswith("before ")
    assert hidden(text).endswith("after")
    assert ("orders" in hidden(text)) == ("orders" in text)


@pytest.mark.parametrize(
    "value",
    ["a'b-SECRET", 'a"b-SECRET', "a''b-SECRET", "a\\'b-SECRET", 'a\\"b-SECRET', "a\\\\\\'b-SECRET"],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_value_with_quotes_in_it_is_hidden_to_the_end_of_its_line(value, shape):
    assert "SECRET" not in hidden(SHAPES[shape].format(name="clientSecret", value=value))


@pytest.mark.parametrize(
    "text",
    [
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};EndpointSuffix=e.net",
        "accountkey = {}",
        "QueueEndpoint=https://shop;SharedAccessSignature=sv=2021&sp=raup&sig={}",
        "https://shop.blob.core.windows.net/?sv=2021&sig={}&sp=r",
        'literal {{ string: "AccountName=shop;AccountKey={}" }}',
        "Map(connectionString -> AccountName=shop;AccountKey={}, queue -> orders)",
        "AccountName=shop;AccountKey=={}",
        "AccountKey =\t= {}",
        "AccountKey\\t=\\n{}",
        "Endpoint=sb://a;SharedAccessKey={}",
        "url=https%3A%2F%2Fshop%2F%3Fsig%3D{}",
    ],
)
def test_keys_and_signatures_are_hidden_wherever_they_stand(text):
    assert VALUE not in hidden(text.format(VALUE))


@pytest.mark.parametrize("option", ["accountUrl", "queue", "poisonQueue"])
def test_an_account_key_in_any_option_is_hidden(option):
    key = f"{VALUE[:12]}{'x' * 74}=="
    for shape in SHAPES.values():
        assert key not in hidden(shape.format(name=option, value=key))


@pytest.mark.parametrize(
    "text",
    [
        "option 'queue' is missing",
        'options {\n  key: "queue"\n  value: "orders"\n}',
        "SELECT design='x', sas FROM t",
        "credential=managedIdentity",
    ],
)
def test_what_is_no_secret_stays(text):
    assert hidden(text) == text


def test_it_takes_long_texts():
    """No end of a quote in sight, many quotes, many backslashes: no time that grows squarely."""
    for piece in ("clientSecret '", "clientSecret \\", "sig=", 'value: "', " ", "\\'"):
        hidden("clientSecret '" + piece * 20_000)


def test_the_shipped_settings_are_those_of_the_function():
    settings = read_properties(DEFAULTS.read_text(encoding="utf-8"))

    assert {name: value for name, value in settings.items() if "redaction" in name} == (
        redaction_conf()
    )
    assert [redaction_conf()[name] for name in PATTERNS] == [STATEMENTS, STATEMENTS]


# ── what the doctor says ──────────────────────────────────────────────────────────────────────────


def test_what_shows_is_judged():
    assert judge((), True, "server").good is True
    assert judge(("sasToken",), False, "server").good is None
    found = judge(("sasToken", "clientSecret"), True, "server")
    assert found.good is False
    assert "sasToken, clientSecret in the event log" in found.text
    assert PATTERNS[1] in found.advice
    assert "redaction_conf()" in found.advice


def test_the_command_in_the_advice_prints_the_pattern():
    code = re.findall(r"`python -c '(.+)'`", judge(("sasToken",), True, "server").advice)[0]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == f"{STATEMENTS}\n"


def test_options_that_a_pattern_lets_through_are_named():
    assert set(shown_through(str)) == {*SECRETS, "accountUrl", "queue"}
    assert shown_through(hidden) == ()
    assert set(shown_through(lambda text: re.sub("AccountKey=[^;]+", "", text))) == {
        "accountAccessKey",
        "clientSecret",
        "sasToken",
        "accountUrl",
    }


@pytest.mark.parametrize(
    "pattern",
    [
        r"""(?s)(?:accountAccessKey|clientSecret|sasToken|\w*ConnectionString)\W*["'][^"']*""",
        # What was shipped before: it knew no tab, comment or second sign.
        r"""(?im)\b(?:AccountKey|SharedAccessSignature)\s*=\s*[^;,)"'\\\s]+|\bsig=[^&;,)"'\\\s]+"""
        r"""|(?:accountAccessKey|clientSecret|sasToken|connectionString|secret[.]\w+)(?:\\*["'`])?"""
        r"""\s*(?:value:|=|->|:)?\s*r?(\\*["'])[^"'\\]*(?:(?=\1\s*(?:[,)]|$))|.*)""",
    ],
)
def test_a_pattern_that_knows_the_usual_shapes_alone_is_not_enough(pattern):
    assert shown_through(lambda text: re.sub(pattern, "", text)) != ()


@pytest.mark.parametrize(
    ("lines", "good"),
    [
        ([], []),
        (["spark.master local[2]"], []),
        (["# logged", f"{ENABLED}=true"], [False]),
        ([f"{ENABLED} true", f"{PATTERNS[1]} AccountKey=[^;]+"], [False]),
        ([f"{ENABLED} true", f"{PATTERNS[1]} (?s).*"], [True]),
        ([f"{ENABLED} true", f"{PATTERNS[1]} (?s).*", f"{PATTERNS[0]} x"], [False]),
        ([f"{ENABLED} true", f"{PATTERNS[1]} (unfinished"], [None]),
        ([f"{ENABLED} true", DEFAULTS.read_text(encoding="utf-8")], [True]),
    ],
)
def test_the_defaults_of_spark_are_looked_at(lines, good, monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert list(of_defaults()) == []

    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    assert [finding.good for finding in of_defaults()] == good


def test_a_properties_file_is_read_as_java_does():
    text = "#a b\n!c d\n\nspark.one  1 2\nspark.two=a\\\\b\\tc\n  spark.three : long\\\n   er\n"

    assert read_properties(text) == {
        "spark.one": "1 2",
        "spark.two": "a\\b\tc",
        "spark.three": "longer",
    }


def test_a_server_that_does_not_answer_is_told_without_its_token():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"sc://127.0.0.1:{taken.getsockname()[1]}/;token=abcd"
        found = of_server(address)

    assert found.good is False
    assert "no answer" in found.text
    assert "abcd" not in repr(found)
    assert "sc://<host>" in of_server("15002;token=abcd").text
