"""What is logged with a batch of its rows, by drivers and by executors, and read again."""
