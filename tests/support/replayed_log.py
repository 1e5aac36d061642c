"""Reads a log as `spark.read` with `readLog` does, from a store in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from log_stores import MemoryLogStore
from world.spark import Row, a_row

from spark_azqueue.journal.identity import IDENTITY, Identity
from spark_azqueue.journal.journal import Journal
from spark_azqueue.options.parse import replay_config
from spark_azqueue.options.replay import ReplayConfig
from spark_azqueue.service.names import Kind
from spark_azqueue.source.columns import CORRUPT, Columns
from spark_azqueue.source.replay import survey
from spark_azqueue.source.replay.batches import chosen_batches, parted, pieces_of
from spark_azqueue.source.replay.objects import OWN_COLUMNS, objects_of, rows_of
from spark_azqueue.source.replay.survey import history_of, journal_of, opened_log

COLUMNS = (*OWN_COLUMNS, ("body", "string"), ("pop_receipt", "string"))

Rows = list[tuple[int, str]]


def a_config(**given: str) -> ReplayConfig:
    return replay_config({"readLog": "file:/not/used", **given}, {})


def log_in(store: MemoryLogStore, patch: pytest.MonkeyPatch) -> Callable[[], Journal]:
    """Opens the log of this store, whatever the options name."""

    def store_of(config: ReplayConfig, kind: Kind) -> MemoryLogStore:
        store.kind = kind
        return store

    patch.setattr(survey, "store_of", store_of)
    return lambda: opened_log(a_config())


def read(log: Callable[[], Journal], *, between: Callable[[], object] = int, **given: str) -> Rows:
    """What a batch read gives: the numbers of batches and bodies."""
    config, found = a_config(**given), log()
    batches, losses = chosen_batches(history_of(found).survey(), config)
    if losses and config.fail_on_data_loss:
        raise losses[0]
    between()
    objects = objects_of(found)
    may_lack = not config.has_start
    rows: Rows = []
    for part in parted(pieces_of(batches)):
        for batch in rows_of(objects, part, config, COLUMNS, may_lack_removed=may_lack):
            assert batch.column("pop_receipt").to_pylist() == [None] * batch.num_rows
            rows += zip(
                batch.column("log_batch").to_pylist(), batch.column("body").to_pylist(), strict=True
            )
    return rows


def rows_in(store: MemoryLogStore) -> dict[int, list[Row]]:
    """What `readLog` gives of each batch; none of those that its writer has removed."""
    config = a_config(onUndecodable="permissive", bodyType="binary")
    identity = Identity.of_any_kind(store.objects[IDENTITY], store)[0]
    journal = journal_of(store, identity.account, identity.uuid)
    objects = objects_of(journal)
    columns: Columns = (("message_id", "string"), ("body", "binary"), (CORRUPT, "string"))
    found = {}
    for batch in history_of(journal).survey().batches:
        given = rows_of(objects, batch.pieces, config, columns, may_lack_removed=True)
        found[batch.number] = [a_row(row) for each in given for row in each.to_pylist()]
    return found


def rows(*numbers: int) -> Rows:
    return [(number, f"m{number}") for number in numbers]
