"""The Bicep module, as far as it can be checked without Azure's compiler."""

from __future__ import annotations

import re

from site_pages import REPOSITORY

from spark_azqueue.options.parse import OPTIONS, source_config

FOLDER = REPOSITORY / "deploy"
BICEP = (FOLDER / "main.bicep").read_text(encoding="utf-8")
PRODUCTION = (REPOSITORY / "docs" / "production.md").read_text(encoding="utf-8")
ROLES = {
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Storage Queue Data Contributor",
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
}
"""Azure's built-in roles have these ids in every tenant."""


def default(name: str) -> str:
    (found,) = re.findall(rf"^param {name} \S+ = (.+)$", BICEP, re.MULTILINE)
    return found


def test_each_queue_has_the_poison_queue_that_the_source_takes() -> None:
    config = source_config(
        {"queue": "orders", "secret.connectionString": "AccountName=shop;AccountKey=a2V5"}, {}
    )
    (poison,) = re.findall(r"'\$\{name\}(-\w+)'\]", BICEP)

    assert default("queues") == "['orders']"
    assert "queue create --name orders " in PRODUCTION
    assert {each.name: each for each in OPTIONS}["poisonQueue"]
    assert config.queues[0].name + poison == "orders-poison"
    assert "var allQueues = concat(queues, poisonQueues)" in BICEP


def test_containers_and_roles_are_those_of_the_first_production_job() -> None:
    given = set(re.findall(r"'([0-9a-f-]{36})'", BICEP))
    wanted = set(re.findall(r'"(Storage \w+ Data \w+)"', PRODUCTION))

    assert default("containers") == "['logs']"
    assert "abfss://logs@" in PRODUCTION
    assert {ROLES[each] for each in given} == wanted
    for role in wanted:
        assert role in BICEP


def test_every_parameter_is_described_and_used() -> None:
    names = re.findall(r"^param (\w+) ", BICEP, re.MULTILINE)
    described = re.findall(r"@description\('[^']+'\)\n(?:@.+\n)*param (\w+) ", BICEP)

    assert names == described
    for name in names:
        assert len(re.findall(rf"\b{name}\b", BICEP)) > 1, name


def test_brackets_are_closed_and_the_page_names_parameters_that_exist() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    passed = re.findall(r"(\w+)=", page.partition("--parameters")[2].partition("\n")[0])

    assert all(BICEP.count(one) == BICEP.count(other) for one, other in ("{}", "[]", "()"))
    assert set(passed) == {"accountName", "principalId"}
    assert all(f"param {name} " in BICEP for name in passed)
