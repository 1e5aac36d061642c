"""A write-ahead log that is read as a table, by who never writes to it."""
