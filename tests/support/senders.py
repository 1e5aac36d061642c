"""A sender to the queue 'orders', and rows for it that have only a body."""

from spark_azqueue.options.sink_config import sink_config
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.requests import requests
from spark_azqueue.sink.sender import Sender

QUEUE = "orders"
BODY = SinkColumns(body=0)


def sender(connection_string, client=None, **options):
    given = {"secret.connectionString": connection_string, "queue": QUEUE, **options}
    return Sender(sink_config(given, {}), client)


def send(made, rows, columns=BODY):
    return made.send(requests(rows, columns, made._config))
