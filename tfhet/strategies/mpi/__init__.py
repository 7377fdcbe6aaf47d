"""Ranks that mpirun, or another launcher that speaks PMI, has started. Every strategy can have them."""

from __future__ import annotations

from tfhet.strategies.mpi.source import MPI, PMI

__all__ = ["MPI", "PMI"]
