"""Reads the messages of a write-ahead log that the arguments of a command select.

Nothing is leased, claimed or written.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import NamedTuple

from spark_azqueue.errors import InvalidOption
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.options import parsers
from spark_azqueue.options.account import ACCOUNT_OPTIONS
from spark_azqueue.options.option import ParsedOptions
from spark_azqueue.options.parse import replay_config
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.messages import Message
from spark_azqueue.source.replay.batches import Piece, chosen_batches, pieces_of
from spark_azqueue.source.replay.objects import objects_of, rows_by_piece
from spark_azqueue.source.replay.survey import history_of, opened_log

from .shared import of_type

_BATCHES = re.compile(r"\s*(\d{1,12})(?:\s*-\s*(\d{1,12}))?\s*")
_OF_LOGS = frozenset(
    {each.name for each in ACCOUNT_OPTIONS}
    | {"messageEncoding", "blobAccountUrl", "secret.blobConnectionString", "failOnDataLoss"}
)
"""Options that reads of a log use. (Options for large bodies are missing, because the commands show
the reference to a blob.)
"""


class LoggedMessage(NamedTuple):
    """A message of a log, and its encoding. logged_at: time at which the message's batch was
    stored, in microseconds since 1970.
    """

    message: Message
    encoding: Encoding
    batch: int
    logged_at: int


def add_log(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add the arguments that name a log, and batches in the log."""
    group = parser.add_argument_group("which part of a write-ahead log")
    group.add_argument(
        "--log",
        required=required,
        metavar="PLACE",
        help="the writing query's option writeAheadLog: blob:<container>/<folder> or file:/…",
    )
    for name, place, which in (("from", "since", "later"), ("to-time", "until", "earlier")):
        group.add_argument(
            f"--{name}",
            dest=place,
            type=of_type(_instant),
            metavar="TIME",
            help=f"batches that were stored at this time or {which}: 2026-11-17T08:00:00Z",
        )
    group.add_argument(
        "--batch", type=of_type(_batches), metavar="N[-M]", help="batches with these numbers"
    )


def _instant(written: str) -> str:
    parsers.instant(written)
    return written


def _batches(written: str) -> tuple[str, str]:
    found = _BATCHES.fullmatch(written)
    if not found or int(found[1]) < 1:
        raise ValueError("the number of a batch, or the first and the last one: 7, 7-12")
    return found[1], found[2] or found[1]


class LogRange:
    """Batches of a log that the arguments of a command select. Used by one thread."""

    def __init__(
        self, options: ParsedOptions, found: argparse.Namespace, *, uncommitted: bool
    ) -> None:
        """List the batches of the log. uncommitted: True to include batches that may still be
        abandoned.

        Raises InvalidOption, LogConflict for a log of another kind, LostSegment, LogDamaged,
        ServiceError.
        """
        given = {name: text for name, text in options.written.items() if name in _OF_LOGS}
        bounds = dict(zip(("startingAt", "endingAt"), found.batch or (None, None), strict=True))
        for name, at in (("startingAt", found.since), ("endingAt", found.until)):
            if at is not None and bounds[name] is not None:
                raise InvalidOption("--batch goes with neither --from nor --to-time; keep one")
            bounds[name] = bounds[name] or at
        given |= {name: text for name, text in bounds.items() if text is not None}
        self._config = replay_config(given | {"readLog": found.log, "onUndecodable": "permissive"})
        self._journal = opened_log(self._config)
        survey = history_of(self._journal).survey(uncommitted=uncommitted)
        self.where = survey.where
        self.at = 0
        """Number of the batch that is being read; 0 before the first batch."""
        self._batches, losses = chosen_batches(survey, self._config)
        for error in losses:
            tell_loss(error, lose=not self._config.fail_on_data_loss)

    def __iter__(self) -> Iterator[LoggedMessage]:
        """Yield the messages that readers of the log would return as rows.

        Raises as the constructor does.
        """
        by_piece = rows_by_piece(
            objects_of(self._journal),
            self._pieces(),
            self._config,
            may_lack_removed=not self._config.has_start,
        )
        for piece, rows, encoding_of in by_piece:
            for row in rows:
                encoding = encoding_of(row.message)
                yield LoggedMessage(row.message, encoding, piece.batch, piece.logged_at)

    def _pieces(self) -> Iterator[Piece]:
        for piece in pieces_of(self._batches):
            self.at = piece.batch
            yield piece

    def close(self) -> None:
        """Close the connections."""
        self._journal.close()
