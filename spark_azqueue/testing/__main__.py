"""Print the connection string of a fake queue service, and serve it until interrupted."""

from __future__ import annotations

import argparse
import signal
import threading

from .errors import Refusal
from .server import FakeQueueService


def main() -> None:
    """Run the command line. The process ends cleanly on SIGINT and SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m spark_azqueue.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 (default): any free port")
    parser.add_argument("--queue", action="append", default=[], help="queue to create; repeatable")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    service = FakeQueueService(port=arguments.port)
    try:
        for name in arguments.queue:
            service.create_queue(name)
        with service:
            print(service.connection_string, flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        pass
    except (Refusal, OSError) as problem:
        parser.error(str(problem))


if __name__ == "__main__":
    main()
