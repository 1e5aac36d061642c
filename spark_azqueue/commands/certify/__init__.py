"""`python -m spark_azqueue certify`: test an account for what this package assumes about the
service.
"""
