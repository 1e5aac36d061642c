"""Where a batch is cut: by rows, by bytes, and by how far its texts shrink."""

from dataclasses import dataclass

import pytest

from spark_azqueue.source.partitions import (
    LARGE_ROW_BYTES,
    LARGE_TASK_BYTES,
    MOST_LARGE_PARTITION_BYTES,
    MOST_PARTITION_BYTES,
    TASK_BYTES,
    bytes_at_most,
    cut,
    rows_at_most,
    sample,
)


@dataclass(frozen=True)
class Text:
    size: int


@pytest.mark.parametrize(
    ("batch", "rows"),
    [
        (0, 1024),
        (1, 1024),
        (8192, 1024),
        (8193, 1025),
        (16_384, 2048),
        (32_768, 4096),
        (10**5, 4096),
    ],
)
def test_small_batches_have_few_partitions_and_large_ones_eight_or_more(batch, rows):
    assert rows_at_most(batch) == rows


@pytest.mark.parametrize(
    ("ratio", "most"),
    [
        (1.5, TASK_BYTES),
        (1.0, TASK_BYTES),
        (0.5, TASK_BYTES * 17 // 10),
        (0.05, MOST_PARTITION_BYTES),
        (0.0, MOST_PARTITION_BYTES),
    ],
)
def test_texts_that_shrink_make_larger_partitions(ratio, most):
    assert bytes_at_most(ratio, rows=32_768, size=32_768_000) == most


@pytest.mark.parametrize(
    ("ratio", "rows", "row_bytes", "most"),
    [
        (1.0, 0, 0, TASK_BYTES),
        (1.0, 10_000, LARGE_ROW_BYTES - 1, TASK_BYTES),  # not large
        (0.1, 10_000, 48_000, TASK_BYTES * 17 // 2),  # not as they are sent
        (1.0, 100, 48_000, TASK_BYTES),  # larger ones would be fewer than eight
        (1.0, 400, 48_000, 2_400_000),
        (0.5, 800, 48_000, 2_400_000 * 17 // 10),
        (1.0, 10_000, 48_000, LARGE_TASK_BYTES),
        (0.2, 10_000, 48_000, MOST_LARGE_PARTITION_BYTES),
    ],
)
def test_large_rows_make_larger_tasks_as_long_as_there_are_eight(ratio, rows, row_bytes, most):
    assert bytes_at_most(ratio, rows, rows * row_bytes) == most


def test_parts_end_after_so_many_bytes():
    parts = list(cut([Text(1000)] * 9, 1000, most_bytes=4000))

    assert list(map(len, parts)) == [3, 3, 3]


def test_a_row_that_is_too_large_has_a_part_of_its_own():
    parts = list(cut([Text(10), Text(5000), Text(10)], 1000, most_bytes=1000))

    assert list(map(len, parts)) == [1, 1, 1]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100, 1000])
def test_a_sample_is_from_all_over_the_batch(count):
    found = list(sample([Text(n) for n in range(count)], 16))

    assert len(found) == len(set(found)) <= 16
    assert len(found) >= min(count, 8)
    assert not count or found[-1].size >= (count - 1) // 2
