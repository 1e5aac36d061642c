"""Reads all pages of a listing, within one time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from spark_azqueue.errors import Outcome, ServiceUnavailable

T = TypeVar("T")


def all_pages(
    within_s: float, doing: str, page: Callable[[str, float], tuple[list[T], str]], most: int
) -> list[T]:
    """Return the entries of all pages of a listing. Reading stops when there are more than `most`
    entries.

    doing: the action as text for the error, such as "list the queues of account 'shop'". page:
    reads one page. Its arguments are the marker of the page ("" for the first page) and the seconds
    that are left for all pages. It returns the entries of the page and the marker of the next page
    ("" after the last page). Raises the errors of `page`. Raises ServiceUnavailable if reading
    takes longer than `within_s` seconds.
    """
    ends_at = time.monotonic() + within_s
    found: list[T] = []
    marker, pages = "", 0
    while (marker or not pages) and len(found) <= most:
        left_s = ends_at - time.monotonic()
        if pages and left_s <= 0:
            raise ServiceUnavailable(
                f"could not {doing}: {pages:,} pages with {len(found):,} names came in"
                f" {within_s:g} s, and more were to follow. Try again; if that does not help,"
                " look for a proxy that answers in place of the service",
                outcome=Outcome.RETRY,
            )
        more, marker = page(marker, left_s)
        found += more
        pages += 1
    return found
