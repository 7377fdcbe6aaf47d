"""Stands for a launcher: writes what it was started with, and by whom, to a file of the host's output."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psutil

rank = os.environ.get("OMPI_COMM_WORLD_RANK", "none")
told = {
    "group": os.environ["SM_CURRENT_INSTANCE_GROUP"],
    "rank": rank,
    "arguments": sys.argv,
    "environment": dict(os.environ),
    "started_by": [process.cmdline() for process in psutil.Process().parents()],
}
host = os.environ["CURRENT_HOST"]
Path(os.environ["SM_OUTPUT_DATA_DIR"], f"tells-{host}-{rank}.json").write_text(json.dumps(told))
