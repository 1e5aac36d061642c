"""What Python runs first in each process of a chain: the sink's lines also go into a file.

SOAK_TOLD names the file. It gets the metrics of each batch as a line of JSON.
"""

from __future__ import annotations

import json
import logging
import os


class _Telling(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        line = json.dumps(getattr(record, "context", {})) + "\n"
        file = os.open(os.environ["SOAK_TOLD"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)


if "SOAK_TOLD" in os.environ:
    logging.getLogger("spark_azqueue.sink.writers").addHandler(_Telling())
