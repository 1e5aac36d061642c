"""Writes down that the newest plan is committed, if none follows it: its `next` would say so.

A reader of the log learns it so, and a new checkpoint may begin behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from spark_azqueue.errors import AzQueueError

from .chain import Chain
from .cleaning import Cleaning
from .folder import PlanFolder
from .names import START, PlanId

log = logging.getLogger(__name__)

_AFTER_S = 10.0
"""An idle query notes it by then, so that a trickle does not cost a put a batch."""


class Noting:
    """Once for a plan, and best effort. Used by one thread."""

    def __init__(
        self, folder: PlanFolder, chain: Chain, cleaning: Cleaning, clock: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._chain = chain
        self._cleaning = cleaning
        self._clock = clock
        self._closed_at = clock()
        self._noted = START

    def closed(self) -> None:
        """A plan was closed just now."""
        self._closed_at = self._clock()

    def idle(self, plan: PlanId, *, ends: bool) -> None:
        """Nothing follows this committed plan now. ends: this may be the last call of the run."""
        if plan in (START, self._chain.followed, self._noted):
            return
        if not ends and self._clock() - self._closed_at < _AFTER_S:
            return
        self._noted = plan
        try:
            self._cleaning.add(plan, self._folder.mark_committed(plan))
        except AzQueueError as error:
            log.warning("could not note that batch %d is committed: %s", plan.number, error)
