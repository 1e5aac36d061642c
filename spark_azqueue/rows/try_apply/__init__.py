"""`try_apply` in a task: a function is called for pieces of rows, and failing rows are found."""
