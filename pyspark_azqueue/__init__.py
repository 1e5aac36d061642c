"""Lets Spark find `format("azqueue")` by itself: it looks for `DefaultSource` in `pyspark_*`.

If this import failed, Spark would find no data source of any `pyspark_*` package: so it must not.
"""

import contextlib

with contextlib.suppress(Exception):
    from spark_azqueue import AzQueueDataSource as DefaultSource  # noqa: F401
