"""Audit the licences of the distributions installed in a Python environment."""
