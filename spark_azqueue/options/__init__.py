"""The options: one table, how it is parsed, and the configs that it makes."""
