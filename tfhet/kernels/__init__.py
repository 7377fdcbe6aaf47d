"""The compiled core: image kernels, decoders and chains of stages behind a C interface (`abi.h`), without a framework.

    from tfhet import kernels

    chain = kernels.Chain("(single stages=[(random_flip salt=0 horizontal=1 vertical=0)])")
    images = chain.run(images, kernels.Draws(ids, epoch, salts))

`tfhet.stages` writes the text of a chain. The library comes with the wheel, or is built on first use.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
