"""Names of the objects of a log. Numbers have twelve digits, so names sort by number.

log.json                    the log's identity, written once
seg/<number>                a segment: the messages of one batch
claims/<number>-<writer>    a process that may write; only the highest number is valid
marks/<claim>-<sequence>    progress of deletes that is newer than the newest segment
pending/<claim>-<sequence>  a long list of pending deletes, named by headers and marks
attempts/<number>-<writer>  Spark asked this writer for a segment of another process
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
    """Name of the object of an attempt by `writer` to run a batch of another process."""
    return f"{ATTEMPTS}/{number:012d}-{writer}"


def outcome(number: int) -> str:
    """Name of the object that stores the outcome of a batch."""
    return f"{OUTCOMES}/{number:012d}"
