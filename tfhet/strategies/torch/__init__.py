"""The strategy `torch`: ranks of PyTorch, which get torchrun's variables for torch.distributed."""

from tfhet.strategies.torch.strategy import TORCH, TorchRendezvous
