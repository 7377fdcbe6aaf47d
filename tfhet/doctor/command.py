"""`tfhet doctor`: looks, and prints a table for each subject."""

from __future__ import annotations

import argparse
import json

from tfhet.cluster import environment
from tfhet.doctor.examination import COLUMNS, Question, examine
from tfhet.errors import UsageError
from tfhet.report import show, table


def run(args: argparse.Namespace) -> int:
    """The exit code: 0, or 1 when something will fail."""
    if args.stages and not args.pipeline:
        raise UsageError("--stages is for --pipeline: name a source there")
    asked = Question(args.cluster, args.pipeline, args.stages, args.script)
    found = examine(environment(), args.run_dir, asked)
    for section in found.sections():
        rows = found.rows(section, args.brief)
        if rows:
            show(table(rows, columns=COLUMNS, title=section))
    if args.json:
        args.json.write_text(json.dumps(found.to_json(), indent=1), encoding="utf-8")
    print(found.verdict)
    return 0 if found.is_sound else 1
