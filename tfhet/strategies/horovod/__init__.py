"""The strategy `horovod`: ranks that sum their gradients with Horovod, over Gloo, MPI or NCCL."""

from tfhet.strategies.horovod.strategy import HOROVOD, Ring
