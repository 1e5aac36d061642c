"""`make mutants`: what it changes, and that a forked process gives back what it found."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import mutants
import pytest

CODE = """
LIMIT = 3

class Door:
    def opens(self, key, *, at=5):
        if key is None or key > LIMIT:
            raise KeyError(key)
        self.opened = at
        return min(key, 2)
"""
EXPECTED = [
    "key is None or key > LIMIT → False",
    "key is None or key > LIMIT → True",
    "key is None or key > LIMIT → key > LIMIT",
    "key is None or key > LIMIT → key is None",
    "key is None → key is not None",
    "key > LIMIT → key >= LIMIT",
    "raise KeyError(key) → pass",
    "self.opened = at → pass",
    "return min(key, 2) → return None",
    "min → max",
    "2 → 3",
]


def test_each_expression_is_changed_alone(tmp_path: Path) -> None:
    file = tmp_path / "door.py"
    file.write_text(CODE)
    found = list(mutants.mutants_of(file))

    assert [each.name.partition(".Door.opens: ")[2] for each in found] == EXPECTED
    assert {each.function for each in found} == {(str(file), "opens", 5)}
    assert len({each.code for each in found}) == len(found)
    assert [each.lines[0] for each in found] == [6] * 6 + [7, 8, 9, 9, 9]


def test_every_module_is_there() -> None:
    package = mutants.REPOSITORY / "spark_azqueue"
    for folder, names in mutants.MODULES.items():
        assert all((package / folder / f"{name}.py").is_file() for name in names)


@pytest.mark.parametrize(
    ("work", "expected"),
    [(lambda: 7, 7), (lambda: os._exit(1), None), (signal.pause, None)],
)
def test_a_mutant_that_dies_or_hangs_is_noticed(work: mutants.Callable, expected: object) -> None:
    seconds = 30.0 if expected else 0.2
    assert mutants.in_a_child(work, seconds) == expected
