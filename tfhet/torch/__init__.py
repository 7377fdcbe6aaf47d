"""tfhet in PyTorch: batches of any source, and chains of stages, as tensors.

import tfhet.torch

# Batches that data hosts prepare:
for images, labels in tfhet.torch.loader(make_dataset, batch_size=64, shuffle=True):
    train(images, labels)

# Stages in a Dataset, for each sample, or in a collate_fn, for a batch:
transform = tfhet.torch.stages("imagenet-train", seed=1)
image = transform(content, id=index)  # bytes of an image file -> float32 [3, 224, 224]
images = transform(contents, ids=indices)  # list of bytes -> float32 [batch, 3, 224, 224]
"""

from tfhet.torch.batches import loader, tensors
from tfhet.torch.transform import Stages, stages
from tfhet.torch.translated import TranslatedTransform, from_torchvision, read_file
