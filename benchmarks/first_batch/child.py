"""The process that is timed: prints the seconds to the first batch of each chain, and where its kernels came from."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

BEGAN_S = time.monotonic()


def main(tfrecords: str) -> None:
    """tfrecords: a directory of photos as TFRecords."""
    import tfhet
    from tfhet import native
    from tfhet.native import kernels

    sources: dict[str, Any] = {
        "aws-cifar": tfhet.SyntheticSource(256, 10, (32, 32, 3)),
        "imagenet-train": tfhet.TFRecordSource.from_directory(tfrecords),
    }
    found = {}
    for chain, source in sources.items():
        pipeline = tfhet.Pipeline(source, chain, batch_size=32, shuffle=0, seed=1)
        next(iter(pipeline.dataset()))
        found[chain] = time.monotonic() - BEGAN_S
    from_wheel = [name for name in native.names() if kernels.of_wheel(name)]
    print(json.dumps({"chains_s": found, "tfhet": tfhet.__file__, "from_wheel": from_wheel}))


if __name__ == "__main__":
    main(sys.argv[1])
