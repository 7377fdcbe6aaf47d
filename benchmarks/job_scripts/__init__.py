"""Scripts of the measured jobs: AWS's TensorFlow example, written again, and the jobs that `cluster` compares.

This folder is the `source_dir` of those jobs: each script runs as a file.
"""

from pathlib import Path

SOURCE_DIR = Path(__file__).parent
