"""`python -m spark_azqueue certify`: test an account against this package's assumptions about the
service.
"""
