"""The page of options is the table of options, and the configs take every option."""

import ast
import re
from pathlib import Path

import option_groups
import pytest
from reference import options_page

from spark_azqueue.options import (
    account,
    blobs,
    log,
    replay,
    sink_config,
    source_config,
    transaction,
)
from spark_azqueue.options.option import taken
from spark_azqueue.options.parse import OPTIONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "options.md"
NAMES = {option.name for option in OPTIONS}


def test_the_page_is_what_the_table_says():
    assert PAGE.read_text(encoding="utf-8") == options_page(), "run: python tools/reference.py"


def test_the_page_lists_every_option_and_nothing_else():
    listed = re.findall(r"^### `([^`]+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert sorted(listed) == sorted(NAMES)


def test_the_table_of_tasks_leads_to_every_option_once():
    page = PAGE.read_text(encoding="utf-8")
    table = "\n".join(line for line in page.split("\n") if line.startswith("| ["))

    assert sorted(re.findall(r"\[`([^`]+)`\]\(#", table)) == sorted(NAMES)


@pytest.mark.parametrize("groups", [{}, {"A": (*NAMES, "queue")}, {"A": NAMES, "B": ("quue",)}])
def test_an_option_without_a_group_or_with_two_is_an_error(groups, monkeypatch):
    monkeypatch.setattr(option_groups, "GROUPS", groups)

    with pytest.raises(ValueError, match=r"one group, once: .*qu"):
        option_groups.grouped()


def looked_up():
    """Constants in the modules that make the configs, among them names of options that they read.

    The declarations of the options are left out.
    """
    found = set()
    for module in (
        account,
        blobs,
        replay,
        log,
        sink_config,
        source_config,
        transaction,
    ):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        declared = {
            node.args[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("Option", "option", "_text", "_secret")
        }
        found |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node not in declared
        }
    return found


CONFIGS = (
    source_config.SourceConfig,
    sink_config.SinkConfig,
    blobs.ClaimCheck,
    log.LogConfig,
    log.ExecutorsConfig,
    replay.ReplayConfig,
    transaction.TransactionConfig,
)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_option_has_a_field_in_its_configs_or_is_read_while_they_are_made(name):
    fills = {name for config in CONFIGS for name in taken(config, {n: n for n in NAMES}).values()}

    assert name in fills | looked_up()


def test_what_is_looked_up_in_values_is_an_option():
    for module in (blobs, replay, log, sink_config, source_config, transaction):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        keys = {
            node.slice.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript)
            and ast.unparse(node.value) == "values"
            and isinstance(node.slice, ast.Constant)
        }
        assert keys <= NAMES
