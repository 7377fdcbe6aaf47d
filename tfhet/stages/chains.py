"""Chains that have a name, as text for `tfhet.stages.parse`."""

from __future__ import annotations

CHAINS = {
    # The augmentation of AWS's heterogeneous cluster example (TensorFlow, CIFAR-10), in its order.
    "aws-cifar": "dilate(3); gaussian_blur(11, 0.8); rescale(1/255);"
    " random_flip(horizontal=True); random_rotation(0.1); random_zoom(0.1)",
    # Mild enough that a small network still learns handwritten digits, which a flip or a large angle would confuse.
    "digits": "random_rotation(0.02); random_zoom(0.05); rescale()",
    "none": "rescale()",
}
