"""A model of one slot of leaseOn=executors whose bodies are decoded before they are logged.

All histories of two attempts, each with its own options, and of the driver that closes their plan.
A queue has a good message G, and M, which decodes with no options but those of `permissive`. Leases
may end at any moment, an attempt may be killed between two steps, and a delete may fail. Each rule
of the protocol is taken away once, and then a promise breaks (docs/decisions/0041).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest

ATTEMPTS = (0, 1)
WISHES = ("poison", "permissive", "fail")
EVERY = list(product(WISHES, WISHES))
COPY_FIRST = "M is deleted behind its copy"
PUT_FIRST = "G is deleted behind the put"
FIRST_DECIDES = "the first put decides"
AS_PLANNED = "an attempt with other options than the plan's leases nothing"
RULES = frozenset({COPY_FIRST, PUT_FIRST, FIRST_DECIDES, AS_PLANNED})
CLOSED = frozenset({"closed"})


class World(NamedTuple):
    """holder: of each message, which attempt has its newest receipt; -1: none, 9: one that ended.

    put: what the slot gave. rows: what was delivered, at each delivery.
    """

    holder: tuple[int, int] = (-1, -1)
    deleted: frozenset[str] = frozenset()
    is_copied: bool = False
    put: frozenset[str] | None = None
    rows: frozenset[frozenset[str]] = frozenset()
    step: tuple[str, str] = ("begins", "begins")
    leased: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())


def at(pair: tuple, place: int, value: object) -> tuple:
    return (value, pair[1]) if place == 0 else (pair[0], value)


def deletes(world: World, who: int, names: frozenset[str]) -> World:
    """By this attempt's receipts: one that was leased again since is refused."""
    held = {name for name, holder in zip("GM", world.holder, strict=True) if holder in (who, 9)}
    return world._replace(deleted=world.deleted | (names & held))


def releases(world: World, who: int) -> World:
    return world._replace(holder=tuple(-1 if each == who else each for each in world.holder))


def nexts(
    world: World, who: int, wishes: tuple[str, str], rules: frozenset[str]
) -> Iterator[World]:
    """What this attempt may do. The plan has the options of the first one."""
    step, leased, wish = world.step[who], world.leased[who], wishes[who]

    def then(then_at: str, found: World = world, has: frozenset[str] = leased) -> World:
        steps, leases = at(found.step, who, then_at), at(found.leased, who, has)
        return found._replace(step=steps, leased=leases)

    if step not in ("begins", "ended"):
        yield then("ended")  # killed
    if step == "begins":
        if world.put is not None:
            yield then("reads")
        elif AS_PLANNED in rules and wish != wishes[0]:
            yield then("reads", world._replace(put=CLOSED))
        else:
            free = {name for name, each in zip("GM", world.holder, strict=True) if each in (-1, 9)}
            got = frozenset(free - world.deleted)
            holder = tuple(
                who if name in got else each for name, each in zip("GM", world.holder, strict=True)
            )
            yield then("decodes", world._replace(holder=holder), got)
    elif step == "decodes":
        if "M" not in leased or wish == "permissive":
            yield then("puts")
        elif wish == "fail":
            yield then("ended", releases(world, who))
        elif COPY_FIRST in rules:
            yield then("deletes M", world._replace(is_copied=True))
        else:
            yield then("copies M", deletes(world, who, frozenset("M")))
    elif step == "copies M":
        yield then("puts", world._replace(is_copied=True), leased - {"M"})
    elif step == "deletes M":
        yield then("puts", world, leased - {"M"})  # it fails
        yield then("puts", deletes(world, who, frozenset("M")), leased - {"M"})
    elif step == "puts":
        early = world if PUT_FIRST in rules else deletes(world, who, leased)
        if early.put is None or FIRST_DECIDES not in rules:
            yield then("settles", early._replace(put=leased))
        else:
            yield then("reads", releases(deletes(early, who, leased & early.put), who))
    elif step == "settles":
        yield then("reads", deletes(world, who, leased))
    elif step == "reads":
        given = frozenset() if world.put in (None, CLOSED) else world.put
        yield then("ended", world._replace(rows=world.rows | {given}))


def broken(world: World) -> str:
    put = world.put or frozenset()
    if "G" in world.deleted and "G" not in put:
        return "G is lost"
    if "M" in world.deleted and not ("M" in put or world.is_copied):
        return "M is lost"
    if "M" in put and world.is_copied:
        return "M has a row and a copy"
    return "other rows" if len(world.rows) > 1 else ""


def search(wishes: tuple[str, str], rules: frozenset[str]) -> set[str]:
    """The promises that break in some history."""
    seen, todo, found = {World()}, [World()], set()
    while todo:
        world = todo.pop()
        found.add(broken(world))
        following = [each for who in ATTEMPTS for each in nexts(world, who, wishes, rules)]
        ends = [place for place in (0, 1) if world.holder[place] in ATTEMPTS]
        following += [world._replace(holder=at(world.holder, place, 9)) for place in ends]
        if world.put is None:
            following.append(world._replace(put=CLOSED))  # by the driver
        todo += set(following) - seen
        seen |= set(following)
    return found - {""}


@pytest.mark.parametrize("wishes", EVERY, ids=str)
def test_no_history_breaks_a_promise(wishes: tuple[str, str]) -> None:
    assert search(wishes, RULES) == set()


@pytest.mark.parametrize(
    ("rule", "promise"),
    [
        (COPY_FIRST, "M is lost"),
        (PUT_FIRST, "G is lost"),
        (FIRST_DECIDES, "other rows"),
        (AS_PLANNED, "M has a row and a copy"),
    ],
)
def test_without_a_rule_a_promise_breaks(rule: str, promise: str) -> None:
    found = {each for wishes in EVERY for each in search(wishes, RULES - {rule})}
    assert promise in found
