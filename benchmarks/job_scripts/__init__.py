"""Scripts of the jobs that are measured: the flow of AWS's example, written afresh, and tfhet's beside it.

Each script is run as a file: this folder is the `source_dir` of those jobs.
"""

from pathlib import Path

SOURCE_DIR = Path(__file__).parent
