"""Lists that come in pages: all of one within one deadline.

A page may be empty and say that another follows. A proxy, or a service in trouble, can say so for
ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spark_azqueue.errors import Outcome, ServiceError, ServiceUnavailable

from .deadline import in_time, seconds_left

T = TypeVar("T")


def all_pages(
    within_s: float,
    doing: str,
    page: Callable[[str | None], tuple[list[T], str | None]],
    most: int,
) -> list[T]:
    """Return what is on all pages of a list; of a longer one the first, with more than `most`.

    doing: for the error, as in "list the queues of account 'shop'". page: gives what is on one page
    and the marker of the next ("" or None after the last), within the deadline of `in_time`; its
    argument is that page's own marker, None for the first. Raises what `page` raises, and
    ServiceUnavailable if the pages have not ended within `within_s` seconds.
    """

    def collected() -> list[T]:
        found: list[T] = []
        marker: str | None = None
        pages = 0
        while (marker or not pages) and len(found) <= most:
            try:
                more, marker = page(marker)
            except ServiceError as error:
                if not pages or seconds_left() > 0 or error.outcome is not Outcome.RETRY:
                    raise
                raise ServiceUnavailable(
                    f"could not {doing}: {pages:,} pages with {len(found):,} names came in"
                    f" {within_s:g} s, and more were to follow. Try again; if that does not help,"
                    " look for a proxy that answers in place of the service",
                    outcome=Outcome.RETRY,
                ) from error
            found += more
            pages += 1
        return found

    return in_time(within_s, collected)
