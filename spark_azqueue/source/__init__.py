"""The source: streams that read queues, batch reads that peek at queues, and reads of logs."""
