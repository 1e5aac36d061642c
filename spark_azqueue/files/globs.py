"""Globs as in Hadoop. Matching never backtracks, because any sender can choose the names.

With several `.*`, a regular expression can take time that grows with a power of a name's length.
This module reads a name once. The number of steps is at most the length of the name times the
length of the glob.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

_ANY = re.compile(".", re.DOTALL)

_CACHED = 4_096


class Glob:
    """A glob (`*`, `?`, `[a-c]`, `[^a]`, `{a,b}`, `\\`) as an automaton. A set of states is an int.

    State n is bit n. A state reads one character, then the next state is active. A state of `*`
    stays active after any character. States of `{`, `,` and `}` make later states active without
    reading a character.
    """

    def __init__(self, glob: str) -> None:
        """Raises ValueError for a glob with an unclosed bracket."""
        self._glob = glob
        self._reads: list[re.Pattern[str] | None] = [None]
        self._leads: list[list[int]] = [[]]  # states reached without reading a character
        self._stays = 0
        self._build()
        self._reached = self._closed()
        self._readers = lru_cache(_CACHED)(self._readers_of)
        self._next = lru_cache(_CACHED)(self._next_of)

    def matches(self, name: Iterable[str]) -> bool:
        """Return True if the glob matches the name. name: a string, or an iterable of its
        characters.
        """
        states = self._reached[0]
        for character in name:
            states = self._next(states, self._readers(character))
            if not states:
                return False
        return bool(states >> len(self._reads) - 1)

    def _readers_of(self, character: str) -> int:
        """Return the states that read this character."""
        tests = enumerate(self._reads)
        return sum(1 << state for state, test in tests if test and test.match(character))

    def _next_of(self, states: int, readers: int) -> int:
        """Return the states that are active after the states `readers` have read a character."""
        found = 0
        for state, reached in enumerate(self._reached):
            if states & self._stays & 1 << state:
                found |= reached
            if states & readers & 1 << state:
                found |= self._reached[state + 1]
        return found

    def _closed(self) -> list[int]:
        """Return, for each state, the state itself and all later states that it reaches without
        reading a character.
        """
        reached = [0] * len(self._reads)
        for state in reversed(range(len(reached))):
            reached[state] = 1 << state
            for other in self._leads[state]:
                reached[state] |= reached[other]
        return reached

    def _build(self) -> None:
        # For each open brace: its start state, and the end states of its parts
        opened: list[tuple[int, list[int]]] = []
        for kind, test in self._tokens():
            here = len(self._reads) - 1
            if test:
                self._reads[here] = test
                self._add()
            elif kind == "*":
                self._stays |= 1 << here
            elif kind == "{":
                opened.append((here, []))
                self._add(here)
            elif kind == "," and opened:
                opened[-1][1].append(here)
                self._add(opened[-1][0])
            elif kind == "}" and opened:
                self._add(here, *opened.pop()[1])
            else:
                self._reads[here] = re.compile(re.escape(kind))
                self._add()
        if opened:
            raise _unclosed(self._glob)

    def _add(self, *before: int) -> None:
        """Add a state that can be reached from the states in `before` without reading a
        character."""
        self._reads.append(None)
        self._leads.append([])
        for state in before:
            self._leads[state].append(len(self._reads) - 1)

    def _tokens(self) -> Iterator[tuple[str, re.Pattern[str] | None]]:
        """Yield the parts of the glob: for each part its kind, and a regular expression if the part
        reads one character.
        """
        glob, at = self._glob, 0
        while at < len(glob):
            here = glob[at]
            at += 1
            if here == "\\" and at < len(glob):
                yield here, re.compile(re.escape(glob[at]))
                at += 1
            elif here == "[":
                end = glob.find("]", at + 1)
                yield here, _class(glob, glob[at:end] if end > 0 else "")
                at = end + 1
            else:
                yield here, _ANY if here == "?" else None


def _class(glob: str, inside: str) -> re.Pattern[str]:
    text = inside.replace("\\", "\\\\").replace("[", "\\[")
    try:
        return re.compile(f"[{'^' + text[1:] if text[:1] == '!' else text}]")
    except re.error:
        raise _unclosed(glob) from None


def _unclosed(glob: str) -> ValueError:
    return ValueError(f"path_glob_filter {glob!r} is no pattern: a bracket is not closed")
