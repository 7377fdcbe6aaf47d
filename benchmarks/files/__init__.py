"""The cost of many files, of large files, and of the gap between epochs."""
