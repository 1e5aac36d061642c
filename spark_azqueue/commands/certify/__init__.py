"""`python -m spark_azqueue certify`: tries on an account what this package assumes of it."""
