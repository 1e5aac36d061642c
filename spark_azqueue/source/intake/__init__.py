"""Monitoring of queues: which queues a run reads, how full they are, and when a batch may begin."""
