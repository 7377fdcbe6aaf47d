"""The cost of recording where the time goes."""
