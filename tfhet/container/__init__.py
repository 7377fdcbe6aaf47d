"""Containers without Docker: processes with a network, a root and limits of their own. Needs Linux and root.

Its names are imported from their files: a container's first process starts with as little as possible.
"""
