"""Lists that come in pages, within one deadline for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from spark_azqueue.errors import Outcome, ServiceUnavailable

T = TypeVar("T")


def all_pages(
    within_s: float, doing: str, page: Callable[[str, float], tuple[list[T], str]], most: int
) -> list[T]:
    """Return what is on all pages of a list; of a longer one the first, with more than `most`.

    doing: for the error, as in "list the queues of account 'shop'". page: gives what is on one page
    and the marker of the next ("" after the last); its arguments are that page's own marker ("" for
    the first), and the seconds that are left for all. Raises what `page` raises, and
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
