"""Figures that mean something to a user: ratios against bare Python in the same process."""
