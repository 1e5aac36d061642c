"""The only way to the service: calls as values, over libcurl, many at once."""
