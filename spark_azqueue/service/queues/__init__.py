"""The queues' REST interface over libcurl: calls as values, many under way at once."""
