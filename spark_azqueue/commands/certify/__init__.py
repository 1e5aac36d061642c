"""`python -m spark_azqueue certify`: tests whether an account behaves as this package assumes."""
