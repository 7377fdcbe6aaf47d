"""Translation of `torchvision.transforms`, version 1 and 2, into stages. It imports neither PyTorch nor torchvision.

translation = tfhet.stages.from_torchvision(transforms.Compose([...]))
print(translation)  # the stages as text, and what differs
chain = translation.compile()
"""

from tfhet.stages.torchvision.translation import Remark, Translation, from_torchvision
