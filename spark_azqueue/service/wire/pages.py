"""Lists that come in pages, within one deadline for all pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from spark_azqueue.errors import Outcome, ServiceUnavailable

T = TypeVar("T")


def all_pages(
    within_s: float, doing: str, page: Callable[[str, float], tuple[list[T], str]], most: int
) -> list[T]:
    """Return the entries of all pages of a list. Reading stops once there are more than `most`.

    doing: for the error, such as "list the queues of account 'shop'". page: returns the entries of
    one page and the marker of the next page ("" after the last). The arguments of `page` are its
    marker ("" for the first) and the seconds left for all pages. Raises what `page` raises, and
    ServiceUnavailable if the pages have not ended within `within_s` seconds.
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
