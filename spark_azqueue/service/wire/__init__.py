"""The one way to the service: calls as values, over libcurl, many under way at once."""
