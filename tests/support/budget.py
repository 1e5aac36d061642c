"""How much the property tests try.

AZQUEUE_EXAMPLES: examples of each simulation, of 40 steps. Few by default, so that `make check` is
short; `make test-all` sets 20, `make property-long` many. More find more: 400 are half a million
steps.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

EXAMPLES = int(os.environ.get("AZQUEUE_EXAMPLES", "6"))
ALL_AT = 20
"""With so many examples nothing is left out."""


def some(each: Sequence[T]) -> Sequence[T]:
    """Of many alike a part, spread evenly, as large as the share of the examples; at 20, all."""
    return each[:: max(1, ALL_AT // EXAMPLES)]


def more(*cases: Any) -> list[Any]:
    """Cases of `parametrize` for `make test-all` alone: they show what a quicker one shows."""
    return [
        pytest.param(*(case if type(case) is tuple else (case,)), marks=pytest.mark.more)
        for case in cases
    ]
