"""The compiled core without a framework: image kernels, decoders, chains of stages, and readers of files and records.

    from tfhet import kernels

    chain = kernels.Chain("(single stages=[(random_flip salt=0 horizontal=1 vertical=0)])")
    images = chain.run(images, kernels.Draws(ids, epoch, salts))

`tfhet.stages` writes the text of a chain; `files` reads records. The library has a C interface (`abi.h`). It comes with
the wheel, or is built on first use.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
