"""Bodies come from anybody: each hostile one is corrupt, and within its bounds."""

from __future__ import annotations

import random

import pytest
from hostile_packs import fuzzed, hostile, opened
from hypothesis import given
from hypothesis import strategies as st
from packed import EVERY_TYPE, in_base64

from spark_azqueue.packs.arrow_format import ArrowFormat, open_arrow
from spark_azqueue.packs.bodies import rows_of
from spark_azqueue.packs.bounds import CorruptPack, PackBounds

HOSTILE = {name: (data, wanted) for name, data, wanted in hostile() if len(data) < 2**20}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_corrupt(name):
    data, wanted = HOSTILE[name]
    for body in (data, in_base64(data)):
        with pytest.raises(CorruptPack) as raised:
            rows_of(body, wanted, PackBounds())
        assert "cannot be read (Memory" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("compressed inside", "compressed inside"),
        ("rows of nothing", "max_rows"),
        ("rows without columns", "max_rows"),
        ("list of empty structs", "max_bytes"),
        ("small numbers asked as large ones", "max_bytes"),
        ("dictionary", "other than a schema"),
        ("gzip of 128 MiB", "max_bytes"),
        ("too many lines", "max_rows"),
        ("millions of values", "250,000 values"),
    ],
)
def test_it_is_refused_before_it_is_opened(name, reason):
    with pytest.raises(CorruptPack, match=reason):
        rows_of(*HOSTILE[name], PackBounds())


def test_the_same_bytes_in_sixteen_columns_are_counted_sixteen_times():
    """Also where all columns are read."""
    data, wanted = HOSTILE["same bytes sixteen times"]
    for columns in (wanted, None):
        with pytest.raises(CorruptPack, match="max_bytes"):
            open_arrow(data, columns, PackBounds())


@given(st.integers(0, 2**63))
def test_a_damaged_pack_has_rows_that_are_valid_or_is_corrupt(seed):
    assert opened(fuzzed(random.Random(seed), EVERY_TYPE), ArrowFormat.prepared(EVERY_TYPE).schema)
