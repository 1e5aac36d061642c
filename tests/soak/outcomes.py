"""Which batches of the log were given up, so that their messages may be delivered again."""

from __future__ import annotations

from collections.abc import Mapping

from spark_azqueue.journal.frame import FRAME_AT_MOST
from spark_azqueue.journal.numbers import number_in
from spark_azqueue.journal.store import log_store
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.log import names
from spark_azqueue.source.log.segment import decode_segment

_OUTCOME_AT_MOST = 1_024


def given_up(options: Mapping[str, str]) -> dict[int, set[str]]:
    """The ids of the messages of each batch that was given up, by Spark's number of the batch.

    options: of the query. Its log has to keep all segments.
    """
    settings = source_config(dict(options), {}).write_ahead_log
    if settings is None:
        return {}
    store = log_store(settings.place, settings.account)
    found = {}
    for name in store.names(names.OUTCOMES):
        number = number_in(name)
        if number is None or b'"committed"' in (store.get(name, _OUTCOME_AT_MOST) or b""):
            continue
        segment = decode_segment(store.get(names.segment(number), FRAME_AT_MOST) or b"")
        found[number - 1] = {message.message_id for message in segment.messages}
    store.close()
    return found
