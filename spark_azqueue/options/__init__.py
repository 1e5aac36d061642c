"""The options, which are declared on the fields of the configs of source and sink."""
