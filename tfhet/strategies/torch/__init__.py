"""The strategy `torch`: ranks of PyTorch, which meet in torch.distributed by the variables that torchrun sets."""

from tfhet.strategies.torch.strategy import TORCH
