"""conf/: every option has its line in the examples, with its default; the examples work."""

import re
from pathlib import Path

import pytest
from refs import ref

from spark_azqueue.commands.doctor.command_line import options_in
from spark_azqueue.options.choices import Side
from spark_azqueue.options.parse import OPTIONS, sink_config, source_config

CONF = Path(__file__).resolve().parents[3] / "conf"
CREDENTIAL = {"secret.connectionString": "AccountName=shop;AccountKey=a2V5"}
PROFILE = "production.options"
SIDES = {"source.options": Side.SOURCE, "sink.options": Side.SINK}


def text(name):
    return (CONF / name).read_text(encoding="utf-8")


def given(name):
    return options_in(CONF / name)


def commented(name):
    """Options that stand behind a `#`, as they would be written."""
    found = re.findall(r"^#([A-Za-z.]+) = (.+)$", text(name), re.MULTILINE)
    assert len(dict(found)) == len(found), "each once"
    return dict(found)


@pytest.mark.parametrize("name", SIDES)
def test_the_example_names_every_option_of_its_side_and_no_other(name):
    assert sorted([*given(name), *commented(name)]) == sorted(
        option.name for option in OPTIONS if option.side & SIDES[name]
    )


def told(name):
    """What stands above each option, on one line."""
    found = re.findall(r"^((?:# .+\n)+)#?([A-Za-z.]+) = ", text(name), re.MULTILINE)
    return {option: comment[2:].replace("\n# ", " ").rstrip() for comment, option in found}


@pytest.mark.parametrize("name", SIDES)
def test_a_comment_says_what_the_table_says(name):
    links = re.compile(r"\[([^]]+)\]\([^)]+\)")
    assert told(name) == {
        option.name: links.sub(r"\1", option.doc).replace("`", "")
        for option in OPTIONS
        if option.side & SIDES[name]
    }


@pytest.mark.parametrize("name", SIDES)
def test_what_is_commented_out_is_the_default_or_an_example_that_parses(name):
    table = {option.name: option for option in OPTIONS}
    for option, value in commented(name).items():
        parsed = table[option].parse(value)
        if table[option].default is not None:
            assert parsed == table[option].default, option


def test_the_source_example_works():
    config = source_config({**given("source.options"), **CREDENTIAL}, {})

    assert config.queues == (ref("orders", "shop"),)


def test_the_sink_example_works():
    config = sink_config({**given("sink.options"), **CREDENTIAL}, {})

    assert config.queue == "answers"


def test_the_production_profile_works_and_names_options_of_a_source():
    table = {option.name: option for option in OPTIONS if option.side & Side.SOURCE}
    for option, value in (given(PROFILE) | commented(PROFILE)).items():
        table[option].parse(value)
    config = source_config({**given(PROFILE), **CREDENTIAL}, {})

    assert config.write_ahead_log
    assert config.max_dequeue_count is None, "an abandoned batch may come twice"


@pytest.mark.parametrize("name", [*SIDES, PROFILE])
def test_no_example_holds_a_secret_or_a_credential_in_force(name):
    secret = {option.name for option in OPTIONS if option.secret}

    assert not given(name).keys() & (secret | {"accountUrl", "credential", "credentialProvider"})


def settings(name):
    lines = [line for line in text(name).splitlines() if line.strip() and line[0] != "#"]
    return dict(line.split(None, 1) for line in lines)


def test_the_redaction_of_the_defaults_hides_what_is_secret():
    pattern = re.compile(settings("spark-defaults.conf")["spark.redaction.regex"])

    for option in OPTIONS:
        if option.secret:
            assert pattern.search(option.name), option.name
            assert pattern.search(option.name.lower()), option.name


LOGGED = """2026-11-23 10:00:00.000 ERROR Executor: Exception in task 0.0
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/orders.py", line 32, in work
ValueError: at most one
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\tat shop.Orders.work(Orders.scala:7)
Caused by: java.io.IOException: no space
\tat java.io.FileOutputStream.write(FileOutputStream.java:9)
\t... 12 more
"""


def test_the_log_keeps_what_happened_and_leaves_the_frames_of_spark_out():
    (pattern,) = re.findall(
        r"^appender\.console\.layout\.pattern = (.+)$", text("log4j2.properties"), re.M
    )
    written = re.fullmatch(r"%replace\{%d\{[^}]+} %p %c\{1}: %m%n%ex}\{(.+)}\{}", pattern)
    assert written
    left = re.sub(written[1].replace("\\\\", "\\"), "", LOGGED)

    assert left.splitlines() == [
        line
        for line in LOGGED.splitlines()
        if "\tat org" not in line and "\tat java" not in line and "\t..." not in line
    ]
