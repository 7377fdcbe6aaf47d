"""tfhet in PyTorch as in `tfhet_torch`, with tensors in the memory format channels_last."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.peers import tfhet_torch

PEER = replace(
    tfhet_torch.PEER,
    name="torch-last",
    words="tfhet in PyTorch, channels_last",
    build=lambda job: tfhet_torch.run_of(job, channels_last=True),
)
