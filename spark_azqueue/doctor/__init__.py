"""`python -m spark_azqueue`: what is installed, and does this queue work?"""
