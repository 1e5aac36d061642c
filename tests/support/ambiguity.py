"""Regular expressions that can take more than linear time, found without running them.

A matcher that goes back tries every way to match a text. There are many ways if two different
positions of the expression can be repeated by the same text, and one leads to the other by it, too:
p -v-> p, p -v-> q, q -v-> q. So `\\s*=?\\s*x` takes the square of the blanks before a "y". The same
holds for a repeat at the start of a search, which begins anew at each character.

Assertions, possessive and atomic groups are taken for what could be there without them, so an
expression that they make linear is found, too.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import sre_constants as op
    import sre_parse

_CHARACTERS = frozenset([*map(chr, range(128)), "é", "日", "\u2028", "\x85", "\ufeff"])
_MANY = 100
"""A repeat of more than this counts as one without an end."""


class _Position(NamedTuple):
    characters: frozenset[str]
    leads: int


class _Automaton:
    """States: what each leads to at once, and by a character."""

    def __init__(self, flags: int) -> None:
        self.at_once: list[list[int]] = []
        self.by_character: list[list[_Position]] = []
        self.assertions: list[Any] = []
        self._flags = flags
        self._groups: dict[int | None, Any] = {}

    def state(self) -> int:
        self.at_once.append([])
        self.by_character.append([])
        return len(self.at_once) - 1

    def read(self, characters: set[str] | frozenset[str], here: int) -> int:
        if self._flags & re.IGNORECASE:
            same = [each.upper() for each in characters] + [each.lower() for each in characters]
            characters = {*characters, *same}
        then = self.state()
        self.by_character[here].append(_Position(frozenset(characters), then))
        return then

    def follow(self, items: Any, here: int) -> int:
        for kind, argument in items:
            here = self._one(kind, argument, here)
        return here

    def _one(self, kind: Any, argument: Any, here: int) -> int:
        name = str(kind)
        if name == "IN":
            return self.read(_set(argument), here)
        if name in ("LITERAL", "NOT_LITERAL"):
            return self.read(_set([(kind, argument)]), here)
        if name == "ANY":
            dot_all = self._flags & re.DOTALL
            return self.read(_CHARACTERS if dot_all else _CHARACTERS - {"\n"}, here)
        if name == "BRANCH":
            ends = [self.follow(branch, self._after(here)) for branch in argument[1]]
            return self._after(*ends)
        if name == "SUBPATTERN":
            group, more, less, items = argument
            self._groups[group], before = items, self._flags
            self._flags = (before | more) & ~less
            here, self._flags = self.follow(items, here), before
            return here
        if name.endswith("_REPEAT"):
            return self._repeated(*argument, here)
        if name.startswith("ASSERT"):
            self.assertions.append(argument[1])
        if name == "GROUPREF":
            return self.follow(self._groups.get(argument, []), here)
        if name == "ATOMIC_GROUP":
            return self.follow(argument, here)
        return here

    def _repeated(self, least: int, most: Any, items: Any, here: int) -> int:
        for _ in range(min(least, 2)):
            here = self.follow(items, here)
        if most is op.MAXREPEAT or most > _MANY:
            start = self._after(here)
            self.at_once[self.follow(items, start)].append(start)
            return self._after(start)
        ends = [here]
        for _ in range(min(most - least, 2)):
            ends.append(here := self.follow(items, here))
        return self._after(*ends)

    def _after(self, *before: int) -> int:
        then = self.state()
        for state in before:
            self.at_once[state].append(then)
        return then


def _set(items: Any) -> set[str]:
    found, negated = set(), False
    for kind, argument in items:
        name = str(kind)
        negated |= name in ("NEGATE", "NOT_LITERAL")
        if name.endswith("LITERAL"):
            found.add(chr(argument))
        elif name == "RANGE":
            found |= {c for c in _CHARACTERS if argument[0] <= ord(c) <= argument[1]}
        elif name == "CATEGORY":
            kind_of = str(argument).removeprefix("CATEGORY_")
            letter = kind_of.removeprefix("NOT_")[0].lower()
            pattern = "\\" + (letter.upper() if kind_of.startswith("NOT_") else letter)
            found |= {c for c in _CHARACTERS if re.match(pattern, c)}
    return {*_CHARACTERS} - found if negated else found


def is_ambiguous(pattern: str, flags: int = 0, *, search: bool = True, whole: bool = False) -> bool:
    """Whether a text may take more than linear time to match.

    search: it may begin anywhere. whole: it has to end where the text ends.
    """
    parsed = sre_parse.parse(pattern, flags)
    items = list(parsed)
    if items and items[0] in ((op.AT, op.AT_BEGINNING), (op.AT, op.AT_BEGINNING_STRING)):
        search = False
    whole = whole or bool(items and items[-1][0] is op.AT)
    automaton = _Automaton(parsed.state.flags)
    if _is_ambiguous(automaton, items, search, whole):
        return True
    inner = [(_Automaton(parsed.state.flags), list(each)) for each in automaton.assertions]
    return any(_is_ambiguous(each, items, False, False) for each, items in inner)


def _is_ambiguous(automaton: _Automaton, items: Any, search: bool, whole: bool) -> bool:
    start = automaton.state()
    first = automaton.state()
    if search:
        automaton.by_character[start].append(_Position(_CHARACTERS, start))
    automaton.at_once[start].append(first)
    end = automaton.follow(items, first)
    positions = [each for leads in automaton.by_character for each in leads]
    number = {id(each): at for at, each in enumerate(positions)}
    ways = [_ways(automaton, each.leads) for each in positions]
    after = [
        [number[id(each)] for state in {*way} for each in automaton.by_character[state]]
        for way in ways
    ]
    reached = [_reached(after, at) for at in range(len(positions))]
    for at, way in enumerate(ways):
        for state in {*way}:
            again = [number[id(each)] for each in automaton.by_character[state]]
            if way.count(state) > 1 and any(at in reached[each] | {each} for each in again):
                return True
    repeated = [at for at in range(len(positions)) if at in reached[at]]
    # Where nothing more is needed for a match, no other way is tried.
    undecided = [at for at in repeated if whole or end not in ways[at]]
    return any(
        _lead_to(positions, after, reached, p, q)
        for p, q in product(repeated, undecided)
        if p != q and q in reached[p]
    )


def _ways(automaton: _Automaton, state: int) -> list[int]:
    """The states that come at once, each as often as there are ways to it, twice at most."""
    found: list[int] = []

    def walk(here: int, before: tuple[int, ...]) -> None:
        if found.count(here) > 1:
            return
        found.append(here)
        if here in before:  # what is repeated may be empty
            return
        for then in automaton.at_once[here]:
            walk(then, (*before, here))

    walk(state, ())
    return found


def _reached(after: Sequence[Sequence[int]], start: int) -> set[int]:
    found: set[int] = set()
    rest = [start]
    while rest:
        new = {*after[rest.pop()]} - found
        found |= new
        rest.extend(new)
    return found


def _lead_to(
    positions: Sequence[_Position],
    after: Sequence[Sequence[int]],
    reached: Sequence[set[int]],
    p: int,
    q: int,
) -> bool:
    """Whether one text leads from p to p, from p to q, and from q to q."""

    def steps(three: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for then in product(*(after[each] for each in three)):
            on_the_way = all(goal in reached[a] | {a} for a, goal in zip(then, goals, strict=True))
            if on_the_way and frozenset.intersection(*(positions[a].characters for a in then)):
                yield then

    goals = (p, q, q)
    seen = {(p, p, q)}
    rest = [(p, p, q)]
    while rest:
        for then in steps(rest.pop()):
            if then == goals:
                return True
            if then not in seen:
                seen.add(then)
                rest.append(then)  # type: ignore[arg-type]
    return False
