"""Compares the options of a source with the production profile, conf/production.options. Sends
nothing."""

from __future__ import annotations

from collections.abc import Mapping

from spark_azqueue.options.choices import DeleteAfter, OnUndecodable
from spark_azqueue.options.parse import source_config

from .finding import Finding


def compare_with_profile(given: Mapping[str, str]) -> Finding:
    """Return a finding with the lines of the profile that a source lacks. A query need not have all
    of them.

    Raises InvalidOption for options that do not work.
    """
    source = source_config(given)
    log, left_to_queue = source.write_ahead_log, source.left_to_queue
    lacks = {
        "writeAheadLog": log is None,
        "deleteOnCommit=true": not source.delete_on_commit,
        # with leaseOn=executors, the source always behaves as if this line were set
        "deleteAfter=commit": log and log.delete_after is DeleteAfter.LOG and not source.executors,
        "onUndecodable=poison": source.on_undecodable is OnUndecodable.FAIL
        and "onUndecodable" not in left_to_queue,
    }
    missing = ", ".join(name for name, is_missing in lacks.items() if is_missing)
    if not missing:
        return Finding(True, "production profile: complete")
    advice = (
        "conf/production.options has these lines, with the reasons; an IngestJob"
        " (docs/production.md) needs none of them"
    )
    return Finding(None, f"production profile: lacks {missing}", advice)
