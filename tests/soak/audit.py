"""What was sent against what stands in the sink: what was lost, what came twice, and why.

A message counts as processed once it stands in a batch that Spark committed in the very life that
wrote it: what an interrupted batch wrote may be undone, and its messages have to come again. With a
write-ahead log, a batch may be committed by any later life, and no message may come again.
"""

from __future__ import annotations

import enum
import json
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from targets import Event, Target

History = list[Event]


class Window(enum.Enum):
    """Where a second row of one message comes from: what became of the batch with the first."""

    WITHIN = "within one run of the query"
    UNFINISHED = "batch not committed when its run ended"
    SETTLING = "batch committed, its deletes cut short by the end of the run"
    AGAIN = "batch committed, then delivered again by the service"
    RENEWED = "batch committed, lease renewed after its offset was logged"
    ELSEWHERE = "none of these"

    @property
    def allowed(self) -> bool:
        """Whether the promises allow it."""
        return self not in (Window.WITHIN, Window.ELSEWHERE)


EXPLAINED = {
    Window.WITHIN: "promise 2: never",
    Window.UNFINISHED: "promises 1 and 4: interrupted, so its messages are given out again",
    Window.SETTLING: "it was the last batch but one: its deletes overlap the next batch (D2)",
    Window.AGAIN: "promise 3: that voids the receipt, so the delete was refused",
    Window.RENEWED: "promise 3: likewise",
    Window.ELSEWHERE: "never",
}


@dataclass(frozen=True)
class Life:
    """One run of the program. `committed`, `logged`: Spark's newest batches when it was over.

    `first`, `last`: which of all requests fell into it.
    """

    number: int
    ended: str
    committed: int
    logged: int
    first: int
    last: int


class Delivery(NamedTuple):
    """One row in the sink; sorts by time."""

    life: int
    batch: int
    dequeue_count: int
    receipt: str
    body: str


@dataclass
class Findings:
    """The outcome of an audit."""

    lost: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    processed: int = 0
    rows: int = 0
    is_exact: bool = False
    """With a log: no row may come again, whatever became of the first one."""
    differing: int = 0
    """With a log: how often a batch came again with other rows than before."""
    given_up: int = 0
    """With maxDequeueCount: how many batches were given up."""
    again: int = 0
    """How many second rows were of messages of these."""
    aside: int = 0
    """How many messages stand in the poison queues."""
    duplicates: Counter[Window] = field(default_factory=Counter)
    ended: dict[Window, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """How the lives of the earlier rows ended."""
    stories: dict[str, str] = field(default_factory=dict)
    """For each message that should not be as it is: what happened to it."""

    @property
    def good(self) -> bool:
        """Nothing lost, altered or invented; a second row only where it is allowed."""
        bad = any(self.is_bad(window) and count for window, count in self.duplicates.items())
        return not (self.lost or self.foreign or self.altered or bad or self.differing)

    def is_bad(self, window: Window) -> bool:
        """True if no second row may come through this window."""
        return self.is_exact or not window.allowed

    def lines(self) -> list[tuple[str, str]]:
        """For the report: names and values."""
        rows = [
            ("lost", f"{len(self.lost)}"),
            ("processed", f"{self.processed}  (rows in batches that Spark committed)"),
            ("altered, or never sent", f"{len(self.altered)}, {len(self.foreign)}"),
            ("rows in the sink", f"{self.rows}"),
            ("duplicated rows", f"{self.duplicates.total()}  (by what became of the first row:)"),
        ]
        for window in Window:
            count = self.duplicates[window]
            by = ", ".join(f"{end} {times}" for end, times in self.ended[window].most_common())
            ended = f"; runs ended by {by}" if count else ""
            must = "  must be 0" if self.is_bad(window) else ""
            explained = "with a log: never" if self.is_exact else EXPLAINED[window]
            rows.append((f"  {window.value}", f"{count}{must}  [{explained}{ended}]"))
        if self.is_exact:
            rows.append(("batches that came again with other rows", f"{self.differing}"))
            rows.append(("batches given up", f"{self.given_up}"))
            rows.append(("  rows again of their messages", f"{self.again}"))
            rows.append(("  messages in poison queues", f"{self.aside}"))
        return rows


def audit(
    sent: Mapping[str, str],
    sink: Path,
    lives: list[Life],
    target: Target,
    *,
    exact: bool = False,
    given_up: Mapping[int, set[str]] | None = None,
    aside: set[str] | None = None,
    is_body: Callable[[str, str], bool] = operator.eq,
) -> Findings:
    """Compare. sent: texts by message id. exact: the query has a log, and a batch is one file.

    given_up: message ids of the batches that were given up, by number. aside: texts in the poison
    queues. is_body: of this text.
    """
    given_up, aside = given_up or {}, aside or set()
    may_come_again = {id_ for ids in given_up.values() for id_ in ids}
    by_number = {life.number: life for life in lives}
    found: dict[str, list[Delivery]] = defaultdict(list)
    for id_, delivery in read(sink):
        found[id_].append(delivery)
    for deliveries in found.values():
        deliveries.sort()
    done = {
        id_
        for id_, deliveries in found.items()
        if any(d.batch <= (lives[-1] if exact else by_number[d.life]).committed for d in deliveries)
    }
    findings = Findings(
        lost=[id_ for id_ in sent if id_ not in done and sent[id_] not in aside],
        foreign=[id_ for id_ in found if id_ not in sent],
        altered=[i for i in sent if any(not is_body(d.body, sent[i]) for d in found.get(i, ()))],
        processed=len(done),
        rows=sum(map(len, found.values())),
        is_exact=exact,
        differing=sum(int(f.name.split("-")[1]) not in given_up for f in sink.glob("*.differs")),
        given_up=len(given_up),
        aside=len(aside),
    )
    twice = [id_ for id_, deliveries in found.items() if len(deliveries) > 1]
    history = target.history([*twice, *findings.lost])
    suspicious = [*findings.lost, *findings.foreign, *findings.altered]
    for id_ in twice:
        if id_ in may_come_again:
            findings.again += len(found[id_]) - 1
            continue
        for earlier, later in zip(found[id_], found[id_][1:]):  # noqa: B905 (pairs of neighbours)
            window = judge(earlier, later, by_number, history[id_])
            findings.duplicates[window] += 1
            findings.ended[window][by_number[earlier.life].ended] += 1
            if findings.is_bad(window):
                suspicious.append(id_)
    for id_ in suspicious:
        findings.stories[id_] = story(found.get(id_, []), lives, history.get(id_, []))
    return findings


def judge(
    earlier: Delivery, later: Delivery, lives: Mapping[int, Life], history: History
) -> Window:
    """Say which window the later row came through."""
    life = lives[earlier.life]
    if earlier.life == later.life:
        return Window.WITHIN
    if earlier.batch > life.committed:
        return Window.UNFINISHED
    taken = next((e.at for e in history if e.dequeue_count == earlier.dequeue_count), life.first)
    since = [e for e in history if taken < e.at < lives[later.life].last]
    # Refused may be the delete, or a renewal (the answer to an earlier one was lost), which proves
    # the receipt void just as well: then no delete is tried before the message comes back.
    refused = next((e.at for e in since if e.op in ("delete", "update") and e.status == 404), None)
    if refused is not None:
        before = {e.op for e in since if e.at < refused and e.status in (0, 200, 204)}
        if "update" in before:
            return Window.RENEWED
        if "dequeue" in before:
            return Window.AGAIN
    # The deletes of a batch begin when the next is asked for, and are waited for before the next
    # but one is. The last committed batch's are done anew at the restart, from its offset.
    if earlier.batch == life.committed - 1 and life.logged == life.committed:
        return Window.SETTLING
    return Window.ELSEWHERE


def read(sink: Path) -> Iterator[tuple[str, Delivery]]:
    """All rows of the sink, with their message ids."""
    for file in sorted(sink.glob("*.json")):
        batch = json.loads(file.read_text(encoding="utf-8"))
        for id_, body, count, receipt in batch["rows"]:
            yield id_, Delivery(batch["life"], batch["batch"], count, receipt, body)


def story(deliveries: list[Delivery], lives: list[Life], history: History) -> str:
    """What happened to one message, life by life: its rows, and the requests about it."""
    lines = []
    for life in lives:
        rows = [
            f"row in batch {d.batch} (dequeue {d.dequeue_count})"
            for d in deliveries
            if d.life == life.number
        ]
        requests = [
            f"#{e.at} {e.op} {e.dequeue_count or e.status or 'no answer'}"
            for e in history
            if life.first <= e.at < life.last
        ]
        if rows or requests:
            lines.append(
                f"    life {life.number} ({life.ended}; batches: {life.committed} committed,"
                f" {life.logged} logged): {', '.join(rows + requests)}"
            )
    return "\n".join(lines) or "    no row, no request about it"


def rows_in(sink: Path) -> int:
    """How many rows stand in the sink."""
    return sum(1 for _ in read(sink))


def batches(checkpoint: Path) -> tuple[int, int]:
    """The newest batch that Spark has committed, and the newest it has logged (-1: none)."""
    committed, logged = (
        max(
            (int(f.name) for f in checkpoint.joinpath(log).glob("*") if f.name.isdigit()),
            default=-1,
        )
        for log in ("commits", "offsets")
    )
    return committed, logged
