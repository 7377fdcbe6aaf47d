"""What is wrong before anything starts: this machine and what is installed on it, each with what to do."""

from __future__ import annotations

from tfhet.doctor.check import Check, Status
from tfhet.doctor.examination import COLUMNS, Examination, examine

__all__ = ["COLUMNS", "Check", "Examination", "Status", "examine"]
