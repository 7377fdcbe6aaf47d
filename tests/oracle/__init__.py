"""What every stage of images does, in plain NumPy and TensorFlow: what the tests compare the compiled core with.

    drawn = oracle.parameters(stage, oracle.keys(seed, stage.name, position, epoch, ids), spec)
    images = oracle.apply(stage, images, drawn)
    images, drawn = oracle.run("random_flip(); rescale()", images, ids, seed, epoch)   # reordered and fused

Images are NumPy arrays, uint8 or float32 [batch, height, width, channels], a list of arrays of different sizes after
`decode`, or a list of bytes of image files. Arithmetic is in float32 and in the order that stages document. The
stages' own methods are not used, only their fields.
"""

from oracle import colour, crop, filters, motion, partner, policy, resize, tone  # noqa: F401  they enter their stages
from oracle.randomness import keys
from oracle.steps import fused, run
from oracle.table import apply, parameters, windows

__all__ = ["apply", "fused", "keys", "parameters", "run", "windows"]
