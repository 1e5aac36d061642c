"""Monitoring of queues: which queues a run reads, how full they are, when a batch may begin."""
