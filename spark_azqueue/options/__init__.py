"""The options: one table, the parser, and the configurations built from it."""
