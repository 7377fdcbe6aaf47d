"""Containers without Docker: processes with a network, a root and limits of their own. Needs Linux and root.

Other rooms import from its files, since a container's first process should start with as little as possible.
"""
