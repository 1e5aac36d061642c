"""What a commit did, for the line in the log. A value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .listing import Step
from .show import Shown


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did. step: WRITE if it recorded its own messages.

    rows: messages of the record; of the given rows if it was passed over. abandoned: how many
    messages may stay hidden until they expire.
    """

    step: Step
    rows: int
    abandoned: int
    shown: Shown

    def as_dict(self) -> dict[str, Any]:
        """For the context of the line in the log."""
        whole = {"transaction": self.step.name.lower(), "abandoned": self.abandoned}
        return whole | asdict(self.shown)

    def in_words(self) -> str:
        """The same as a sentence."""
        if self.step is Step.OVER:
            return (
                f"A higher number is recorded in the transaction log, so these {self.rows:,} rows"
                " were written long ago, as after a rollback, and nothing was sent. (With a copied"
                " checkpoint they are other rows: it needs a 'transactionLog' of its own)"
            )
        whose = "Recorded" if self.step is Step.WRITE else "It was recorded before"
        before = f", {self.shown.before:,} were before" if self.shown.before else ""
        hidden = f"; up to {self.abandoned:,} abandoned" if self.abandoned else ""
        return (
            f"{whose}: {self.rows:,} messages, {self.shown.shown:,} shown in"
            f" {self.shown.seconds:.1f} s{before}{hidden}"
        )
