"""What the objects of a log are called. Numbers have twelve digits, so names sort as they count.

log.json                    the log's identity, written once
seg/<number>                a segment: the messages of one batch
claims/<number>-<writer>    who may write; the highest one counts
marks/<claim>-<sequence>    how far deleting has come, if no segment says so
pending/<claim>-<sequence>  deletes that are pending, if they are many: headers and marks name it
attempts/<number>-<writer>  this writer was asked for a segment of another one
outcomes/<number>           the final outcome of a batch
"""

from __future__ import annotations

SEGMENTS, MARKS = "seg", "marks"
ATTEMPTS, OUTCOMES = "attempts", "outcomes"
PENDING = "pending"


def segment(number: int) -> str:
    """Name of a segment."""
    return f"{SEGMENTS}/{number:012d}"


def mark(claim_number: int, sequence: int) -> str:
    """Name of a mark."""
    return f"{MARKS}/{claim_number:012d}-{sequence:012d}"


def pending(claim_number: int, sequence: int) -> str:
    """Name of a list of pending deletes."""
    return f"{PENDING}/{claim_number:012d}-{sequence:012d}"


def attempt(number: int, writer: str) -> str:
    """Name of what a writer leaves that is asked for a segment of another one."""
    return f"{ATTEMPTS}/{number:012d}-{writer}"


def outcome(number: int) -> str:
    """Name of the outcome of a batch."""
    return f"{OUTCOMES}/{number:012d}"
