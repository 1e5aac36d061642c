"""Globs: what they match, and that a name costs no more than its length."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.files.globs import Glob


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.json", ["a.json", ".json"], ["a.jsonl", "json"]),
        (
            "part-?[0-9].{csv,csv.gz}",
            ["part-a1.csv", "part-b2.csv.gz"],
            ["part-1.csv", "part-aa.csv"],
        ),
        ("[^a]*", ["b", "ba"], ["a", "ab"]),
        ("[!a]x", ["bx"], ["ax"]),
        (r"\*.txt", ["*.txt"], ["a.txt"]),
        ("a+b(c)", ["a+b(c)"], ["aab(c)"]),
        ("a,b}", ["a,b}"], ["a"]),
        ("{a,{b,c}}d", ["ad", "bd", "cd"], ["d"]),
    ],
)
def test_globs_are_those_of_hadoop(glob: str, yes: list[str], no: list[str]) -> None:
    pattern = Glob(glob)

    assert [name for name in yes if not pattern.matches(name)] == []
    assert [name for name in no if pattern.matches(name)] == []


@pytest.mark.parametrize("glob", ["[a", "{a", "[z-a]", "a{b,c"])
def test_a_glob_that_is_not_closed_is_refused(glob: str) -> None:
    with pytest.raises(ValueError, match="is no pattern"):
        Glob(glob)


def braces(glob: list[object]) -> list[str]:
    """The globs without braces that a glob stands for. A part in braces is a list of globs."""
    parts = [
        [text for each in part for text in braces(each)] if isinstance(part, list) else [str(part)]
        for part in glob
    ]
    return ["".join(chosen) for chosen in product(*parts)]


def written(glob: list[object]) -> str:
    return "".join(
        "{" + ",".join(map(written, part)) + "}" if isinstance(part, list) else str(part)
        for part in glob
    )


GLOBS = st.recursive(
    st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]"]), max_size=5),
    lambda globs: st.lists(st.sampled_from(["a", "*"]) | st.lists(globs, min_size=1, max_size=3)),
    max_leaves=6,
)


@given(glob=GLOBS, name=st.text("abc", max_size=8))
def test_it_matches_what_one_of_its_globs_without_braces_matches(
    glob: list[object], name: str
) -> None:
    wanted = any(fnmatchcase(name, each) for each in braces(glob))

    assert Glob(written(glob)).matches(name) is wanted


@pytest.mark.parametrize(
    ("glob", "name"),
    [
        ("*-*-*.json", "-" * 100_000 + "x"),
        ("*a*a*a*a*a*a*a*b", "a" * 100_000),
        ("{*a,a*}{*a,a*}{*a,a*}{*a,a*}b", "a" * 100_000),
        ("*{a,aa,*a*}*{a,aa,*a*}*?b", "a" * 100_000),
    ],
)
def test_each_character_of_a_name_is_looked_at_once(glob: str, name: str) -> None:
    """However many ways there are to match it. None of these matches, so all ways are tried."""
    seen = 0

    def characters() -> Iterator[str]:
        nonlocal seen
        for character in name:
            seen += 1
            yield character

    assert not Glob(glob).matches(characters())
    assert seen == len(name)


def test_what_cannot_match_any_more_is_not_read_on() -> None:
    rest = iter("bc")

    assert not Glob("a?").matches(rest)
    assert next(rest) == "c"
