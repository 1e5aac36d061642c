"""What a commit did, for the line in the log. A value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .listing import PassedOver, Step
from .show import Shown


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did. step: WRITE if it recorded its own messages.

    rows: messages of the record; of the given rows if it was passed over. abandoned: how many
    messages may stay hidden until they expire. given: how many rows the write was given.
    passed_over: why, if it was.
    """

    step: Step
    rows: int
    abandoned: int
    shown: Shown
    given: int
    passed_over: PassedOver

    @property
    def is_skipped(self) -> bool:
        """True if somebody should know that the rows of this write were not taken.

        That a stream's newest batch comes again is usual, after each start.
        """
        is_stream = self.passed_over is PassedOver.STREAM
        return self.step is Step.OVER or (self.step is Step.SHOW and not is_stream)

    def as_dict(self) -> dict[str, Any]:
        """For the context of the line in the log."""
        whole = {"transaction": self.step.name.lower(), "abandoned": self.abandoned}
        return whole | asdict(self.shown)

    def in_words(self) -> str:
        """The same as a sentence."""
        if self.step is Step.OVER:
            return (
                "A higher number is recorded in the transaction log, so nothing was sent of these"
                f" {self.rows:,} rows: {self.passed_over.value}"
            )
        whose = "Recorded" if self.step is Step.WRITE else "It was recorded before"
        before = f", {self.shown.before:,} were before" if self.shown.before else ""
        hidden = f"; up to {self.abandoned:,} abandoned" if self.abandoned else ""
        skipped = (
            f". The {self.given:,} rows of this write were not taken; for other rows, take a higher"
            " txnVersion"
            if self.is_skipped
            else ""
        )
        return (
            f"{whose}: {self.rows:,} messages, {self.shown.shown:,} shown in"
            f" {self.shown.seconds:.1f} s{before}{hidden}{skipped}"
        )
