"""Events from Event Grid, as columns: the public import path.

    from spark_azqueue.events import blob_events, parsed

Both take a DataFrame with a column `body`; `bounded_json` takes a column. They use Spark's own
functions alone, so they work on streams and on Spark Connect, and the executors need nothing for
them.
"""

from __future__ import annotations

from .eventgrid.blobs import blob_events
from .eventgrid.parsing import bounded_json, parsed

__all__ = ["blob_events", "bounded_json", "parsed"]
