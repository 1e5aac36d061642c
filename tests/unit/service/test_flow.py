"""`results_of` runs many calls with few at once, and gives each one's result or error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from world.fates import Fate
from world.transactions import Client, HiddenQueues, Steps, Unordered

from spark_azqueue.errors import Outcome, ServiceUnavailable
from spark_azqueue.service.queues.calls import Show
from spark_azqueue.service.queues.flow import MOST_WAITING, attempt_all, results_of
from spark_azqueue.service.retry import SETTLE


def client(service: HiddenQueues) -> Any:
    return Client(service, Steps())


def busy_after(calls: int) -> HiddenQueues:
    service = HiddenQueues()
    service.meet("any", *[None] * calls, Fate.BUSY)
    return service


def shows(service: HiddenQueues, count: int) -> list[tuple[int, Show]]:
    return [(n, Show(service.put(f"queue-{n % 2}", f"m{n}").lease)) for n in range(count)]


@pytest.mark.parametrize("most", [None, 1, 3])
@pytest.mark.parametrize("count", [0, 1, 3 * MOST_WAITING])
def test_each_call_has_one_result(most: int | None, count: int) -> None:
    service = HiddenQueues()
    found = list(results_of(client(service), shows(service, count), SETTLE, most=most))
    assert sorted(tag for tag, _ in found) == list(range(count))
    assert {result for _, result in found} <= {Outcome.OK}
    assert len(service.shown) == count


def test_an_error_is_a_result_and_the_others_go_on() -> None:
    service = busy_after(1)
    found = dict(results_of(client(service), shows(service, 4), SETTLE))
    assert isinstance(found.pop(1), ServiceUnavailable)
    assert set(found.values()) == {Outcome.OK}


@pytest.mark.parametrize("most", [None, 1])
def test_a_result_may_have_calls_that_follow(most: int | None) -> None:
    service = HiddenQueues()
    first, *rest = shows(service, 5)

    def then(tag: int, result: object) -> list[tuple[int, Show]]:
        assert result is Outcome.OK
        return rest[tag : tag + 1]

    found = list(results_of(client(service), [first], SETTLE, most=most, then=then))

    assert [tag for tag, _ in found] == [0, 1, 2, 3, 4]


def test_no_more_calls_are_taken_than_have_room() -> None:
    service = HiddenQueues()
    taken = 0

    def calls() -> Iterator[tuple[int, Show]]:
        nonlocal taken
        for each in shows(service, 10):
            taken += 1
            yield each

    results = results_of(client(service), calls(), SETTLE, most=1)
    next(results)
    assert taken <= MOST_WAITING
    results.close()


def test_it_closes_its_calls_and_ends_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = []
    monkeypatch.setattr(Unordered, "close", lambda self: closed.append(self))
    service = HiddenQueues()
    assert not list(results_of(client(service), shows(service, 5), SETTLE, within_s=0))
    assert not service.shown
    with pytest.raises(ZeroDivisionError):
        list(results_of(client(service), ((1 // 0, each) for _, each in shows(service, 1)), SETTLE))
    assert len(closed) == 2


def attempted(service: HiddenQueues, calls: Iterable[tuple[int, Any]]) -> tuple[list[int], int]:
    """The tags of the calls that were answered, and how many errors were told."""
    told: list[Exception] = []
    answers = attempt_all(client(service), calls, SETTLE, told.append, most=1)
    return [tag for tag, _ in answers], len(told)


def test_of_several_errors_the_first_one_alone_is_told() -> None:
    service = busy_after(0)

    def calls() -> Iterator[tuple[int, Show]]:
        yield from shows(service, MOST_WAITING + 5)
        raise OSError("no more calls")

    assert attempted(service, calls())[1] == 1


def test_a_denied_access_ends_the_calls_of_its_queue_alone() -> None:
    service = HiddenQueues()
    service.meet("any", Fate.REFUSED)
    count = 4 * MOST_WAITING
    assert attempted(service, shows(service, count)) == ([*range(1, count, 2)], 1)
