"""Compares the CPU time of this working tree with an earlier commit, on the same machine."""
