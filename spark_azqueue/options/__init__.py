"""The options, declared on the fields of the configs of source and sink."""
