"""`certify` on Azurite: what it is known to do otherwise differs, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from accounts import account_of

from spark_azqueue.commands.certify.assumptions import ASSUMPTIONS
from spark_azqueue.commands.certify.measures import introduction
from spark_azqueue.commands.certify.sandbox import Sandbox
from spark_azqueue.commands.certify.trial import TrialOutcome, rows


@pytest.mark.core
def test_azurite_differs_where_it_is_known_to(azurite_connection_string, blobs):
    account = account_of(azurite_connection_string)
    bench = Sandbox(account, replace(account, url=account.blob_url))
    try:
        introduction(bench)
        found = {row.assumption.key: row for row in rows(bench)}
        names = bench.client.names(bench.prefix)
    finally:
        assert bench.close() == []

    assert {key for key, row in found.items() if row.outcome is TrialOutcome.DIFFERS} == set()
    known = {key for key, row in found.items() if row.outcome is TrialOutcome.KNOWN}
    assert known == {each.key for each in ASSUMPTIONS if each.azurite}
    untried = {key for key, row in found.items() if row.outcome is TrialOutcome.NOT_TRIED}
    assert untried == {each.key for each in ASSUMPTIONS if each.untried}
    assert names
    assert bench.client.names(bench.prefix) == []
    assert bench.requests < 400
