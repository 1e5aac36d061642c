"""The doctor compares a source with conf/production.options; what is lacking is advice."""

import sys
from pathlib import Path

import pytest

from spark_azqueue.commands.doctor.command_line import main, options_in
from spark_azqueue.commands.doctor.profile import compare_with_profile

PROFILE = options_in(Path(__file__).resolve().parents[3] / "conf" / "production.options")
CREDENTIAL = {"secret.connectionString": "AccountName=shop;AccountKey=a2V5"}


def compared(**changes):
    """The finding on the profile with these options; None leaves one out."""
    given = {**PROFILE, **CREDENTIAL, **changes}
    return compare_with_profile({name: text for name, text in given.items() if text})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"deleteAfter": None, "onUndecodable": None},  # their defaults are the profile's
        {"onUndecodable": "permissive"},
        {"onUndecodable": None, "settingsFromQueue": "true"},
        {"maxDequeueCount": "5"},
        {"leaseOn": "executors", "deleteAfter": "log"},
    ],
)
def test_a_source_with_the_profile_is_good(changes):
    found = compared(**changes)

    assert (found.good, found.text) == (True, "production profile: complete")


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({"writeAheadLog": None, "deleteAfter": None}, "writeAheadLog"),
        ({"onUndecodable": "fail"}, "onUndecodable=poison"),
        ({"deleteAfter": "log"}, "deleteAfter=commit"),
        (
            {"writeAheadLog": None, "deleteAfter": None, "deleteOnCommit": "false"},
            "writeAheadLog, deleteOnCommit=true",
        ),
    ],
)
def test_what_is_lacking_is_advice(changes, lacks):
    found = compared(**changes)

    assert (found.good, found.text) == (None, f"production profile: lacks {lacks}")
    assert "docs/production.md" in found.advice


def test_the_command_says_it_of_a_source_alone_and_it_is_no_problem(fake, capsys, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    fake.create_queue("orders")
    fake.put("orders", "hello")
    access = ["orders", "--option", f"secret.connectionString={fake.connection_string}"]
    lacks = "-    production profile: lacks writeAheadLog"

    assert main(access) == main([*access, "--as", "sink"]) == 0
    assert main([*access, "--option", "messageEncoding=base64"]) == 1  # this comes first
    assert capsys.readouterr().out.count(lacks) == 1
