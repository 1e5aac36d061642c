"""Starts after a failure: how many, how long apart, and when none follows."""

from __future__ import annotations

import math

import pytest
from progress_events import ended, started

from spark_azqueue import errors
from spark_azqueue.metrics.listener import AzQueueListener
from spark_azqueue.running import supervisor
from spark_azqueue.running.supervisor import PERMANENT, RunResult, run_until_done


class Query:
    """Ends as it is told: with an error, or without."""

    def __init__(self, end: BaseException | None, world: Restarts, lasts: float) -> None:
        self.end, self.world, self.lasts, self.stopped = end, world, lasts, False
        self.recentProgress = [{"numInputRows": rows} for rows in world.rows]

    def awaitTermination(self, timeout: float) -> bool:
        self.world.now += self.lasts
        if self.end:
            raise self.end
        return True

    def stop(self) -> None:
        self.stopped = True


class Restarts:
    """A clock, the waits, and the queries that are started one after the other."""

    def __init__(self, *ends: BaseException | None, lasts: float = 1.0) -> None:
        self.now, self.waits, self.ends, self.lasts = 0.0, [], list(ends), lasts
        self.queries: list[Query] = []
        self.rows: list[int] = []
        """Of the batches that each run commits."""

    def start(self) -> Query:
        query = Query(self.ends.pop(0), self, self.lasts)
        self.queries.append(query)
        return query

    def run(self, **options) -> RunResult:
        return run_until_done(
            self.start, sleep=self.waits.append, clock=lambda: self.now, **options
        )


BROKEN = RuntimeError("a batch failed")


def ours(kind: str) -> RuntimeError:
    error = getattr(errors, kind)("it is so")
    return RuntimeError(f"[STREAM_FAILED] … spark_azqueue.errors.{kind}: {error} SQLSTATE: XXKST")


def test_a_query_that_ends_is_not_started_again() -> None:
    world = Restarts(None)

    assert world.run() == RunResult(True, 0, None)
    assert world.waits == []
    assert RunResult(True, 0).explanation is None


def test_it_waits_longer_after_each_failure_and_tells_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Restarts(*[BROKEN] * 5, None)

    assert world.run(first_wait=2, longest_wait=10) == RunResult(True, 5, BROKEN)
    assert world.waits == [2, 4, 8, 10, 10]
    assert "the query failed; restart 1 of 20 in 2 s: RuntimeError: a batch failed" in caplog.text


@pytest.mark.parametrize(
    ("rows", "waits"), [([], [1, 2, 4]), ([0, 0], [1, 2, 4]), ([0, 7], [1, 1, 1])]
)
def test_after_a_run_that_processed_messages_the_wait_begins_anew(
    rows: list[int], waits: list[float]
) -> None:
    world = Restarts(BROKEN, BROKEN, BROKEN, BROKEN)
    world.rows = rows

    assert world.run(restarts=3, restarts_in_all=3) == RunResult(False, 3, BROKEN)
    assert world.waits == waits


def test_progress_ends_a_row_of_failures() -> None:
    world = Restarts(*[BROKEN] * 15, None)
    world.rows = [7]

    assert world.run(restarts=1) == RunResult(True, 15, BROKEN)


def test_failures_in_spite_of_progress_come_to_an_end() -> None:
    world = Restarts(*[BROKEN] * 9)
    world.rows = [7]

    assert world.run(restarts=1, restarts_in_all=8) == RunResult(False, 8, BROKEN)


def test_it_gives_up_after_the_last_restart() -> None:
    world = Restarts(*[BROKEN] * 10)
    result = world.run(restarts=3)

    assert result == RunResult(False, 3, BROKEN)
    assert len(world.queries) == 4
    assert result.explanation
    assert result.explanation.sentence == "a batch failed"


def test_without_restarts_the_first_failure_is_the_end() -> None:
    assert Restarts(BROKEN).run(restarts=0) == RunResult(False, 0, BROKEN)


def test_a_long_run_ends_a_row_of_failures() -> None:
    world = Restarts(*[BROKEN] * 9, None, lasts=600)

    assert world.run(restarts=1, restarts_in_all=1).restarts == 9
    assert world.waits == [1.0] * 9


@pytest.mark.parametrize("kind", sorted(PERMANENT))
def test_what_no_restart_mends_is_not_tried_again(kind: str) -> None:
    result = Restarts(ours(kind), None).run()

    assert (result.finished, result.restarts) == (False, 0)


def test_what_may_pass_is_tried_again() -> None:
    assert Restarts(ours("ServiceUnavailable"), None).run().finished


def test_the_names_of_permanent_errors_exist() -> None:
    from spark_azqueue import errors

    assert all(hasattr(errors, name) for name in PERMANENT)


def test_the_first_start_raises_and_later_ones_count_as_failures() -> None:
    with pytest.raises(IndexError):
        Restarts().run()

    world = Restarts(BROKEN)  # there is no second query: `start` fails from then on
    result = world.run(restarts=2)
    assert (result.finished, result.restarts) == (False, 2)
    assert isinstance(result.error, IndexError)


def test_an_interrupt_stops_the_query_and_goes_on() -> None:
    world = Restarts(KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        world.run()
    assert world.queries[0].stopped


@pytest.mark.parametrize(
    "options",
    [
        {"restarts": -1},
        {"restarts_in_all": -1},
        {"first_wait": -1.0},
        {"first_wait": 5.0, "longest_wait": 1.0},
        {"first_wait": math.nan},
        {"longest_wait": math.nan},
    ],
)
def test_nonsense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="none may be negative"):
        Restarts(None).run(**options)


@pytest.mark.parametrize("seconds", [0, -1, 0.001, 59.9, math.nan])
def test_no_run_counts_as_healthy_at_once(seconds: float) -> None:
    world = Restarts(*[BROKEN] * 9)

    with pytest.raises(ValueError, match=f"healthy_after={seconds}: expected 60 seconds or more"):
        world.run(restarts=5, healthy_after=seconds)
    assert world.queries == []


def test_a_transaction_of_another_process_ends_it() -> None:
    assert {"TransactionConflict", "TransactionUnknown"} <= PERMANENT


class Listener:
    """Hears of each end but those of runs with these numbers."""

    def __init__(self, world: Restarts, *deaf: int) -> None:
        self.world, self.deaf, self.response = world, deaf, []

    def wait_for_end(self, query: Query, timeout_s: float) -> bool:
        assert timeout_s == 10
        self.response.append(number := self.world.queries.index(query))
        return number not in self.deaf


def test_it_returns_when_the_listener_knows_of_the_end(caplog: pytest.LogCaptureFixture) -> None:
    world = Restarts(BROKEN, BROKEN, None)
    listener = Listener(world)

    assert world.run(listener=listener).finished
    assert listener.response == [0, 1, 2]
    assert "the listener has not heard" not in caplog.text


def test_it_says_so_if_the_listener_does_not_hear(caplog: pytest.LogCaptureFixture) -> None:
    world = Restarts(BROKEN, BROKEN)

    assert not world.run(listener=Listener(world, 1), restarts=1).finished
    assert caplog.text.count("the listener has not heard of the end of the run within 10 s") == 1


def test_listeners_of_the_session_are_waited_for_without_being_named() -> None:
    class Attached(AzQueueListener):
        """Gets the end of a run when it is waited for."""

        def __init__(self) -> None:
            super().__init__()
            self.waited: list[str] = []

        def wait_for_end(self, query: Query, timeout_s: float = 10.0) -> bool:
            self.waited.append(query.runId)
            ended(self, query.runId)
            return super().wait_for_end(query, timeout_s)

    class World(Restarts):
        def start(self) -> Query:
            query = super().start()
            query.runId = f"run {len(self.queries)}"
            for each in listeners:
                started(each, run=query.runId)
            return query

    listeners = [Attached(), Attached()]
    of_another_session = Attached()
    world = World(BROKEN, None)

    assert world.run(listener=listeners[0]).finished
    assert [each.waited for each in listeners] == [["run 1", "run 2"]] * 2, "each once"
    assert of_another_session.waited == []


def test_it_is_public() -> None:
    import spark_azqueue

    assert spark_azqueue.run_until_done is supervisor.run_until_done


# ── isolation ─────────────────────────────────────────────────────────────────────────────────────


def isolating(status: str) -> RuntimeError:
    """The failure of a batch whose offset says what isolation does."""
    offset = f'{{"version": 2, "batch": 7, "isolation": "{status}", "messages": 1}}'
    return RuntimeError(
        f"a batch failed\nCurrent Available Offsets: {{AzQueueStreamReader: {offset}}}"
    )


SPLIT = "batch 7 (256 messages) failed, its messages failed 6 times in a row: split into 16"


def test_the_line_of_a_restart_says_what_isolation_does(caplog: pytest.LogCaptureFixture) -> None:
    world = Restarts(isolating(f"{SPLIT}; 256 suspects left"), None)

    assert world.run().finished

    assert f". Isolation: {SPLIT}; 256 suspects left" in caplog.text


@pytest.mark.parametrize(
    ("statuses", "rows", "waits"),
    [
        (["", "", ""], [], [1, 2, 4]),
        # A split is progress, and the next one only after a commit.
        (["", "", "one", "two", "three"], [], [1, 2, 1, 2, 4]),
        (["one", "two", "three"], [5], []),  # each run has committed a batch
        (["", "one", ""], [5], [1, 1]),
        (["one", "one", "one"], [], [1, 2, 4]),  # the same batch failed again
    ],
)
def test_it_does_not_wait_while_isolation_advances(
    statuses: list[str], rows: list[int], waits: list[float]
) -> None:
    world = Restarts(*map(isolating, statuses), None)
    world.rows = rows

    assert world.run().finished
    assert world.waits == waits


def test_after_a_commit_of_the_search_four_failures_in_a_row_need_no_wait() -> None:
    search = supervisor.Isolating()
    seen = []
    for status, has_committed in [
        *[("", True), ("one", False), ("two", True)],
        *[("two", False)] * 4,
        *[("two", True), ("", False), ("three", False)],
    ]:
        search.advances(status, has_committed)
        seen.append(search.may_restart_at_once)
    assert seen == [*[False, False, True], *[True] * 3, False, *[True, False, False]]


def test_what_isolation_does_is_also_found_in_the_progress(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Spark Connect does not tell the offsets of a failure."""

    class Told(Query):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            ends = [{"endOffset": None}, {"endOffset": {"isolation": SPLIT}}]
            self.recentProgress = [{"numInputRows": 0, "sources": ends}]

    world = Restarts(BROKEN, None)
    ends = list(world.ends)
    result = run_until_done(
        lambda: Told(ends.pop(0), world, 1.0), sleep=world.waits.append, clock=lambda: world.now
    )

    assert result.finished
    assert f". Isolation: {SPLIT}" in caplog.text


def test_an_offset_cannot_write_lines_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = Restarts(isolating("x\\nForged line"), isolating("y" * 301), None)

    assert world.run().finished

    assert "Isolation" not in caplog.text


def test_too_many_poison_messages_are_no_reason_to_start_again() -> None:
    assert "TooManyPoison" in PERMANENT
    world = Restarts(ours("TooManyPoison"))
    assert not world.run().finished
