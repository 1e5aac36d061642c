"""Files as they arrive: events of new files into batches of files, each file once."""
