"""A loop over a declared pipeline."""

from notes import EPOCHS, Notes

import tfhet

source = tfhet.SyntheticSource(examples=64, splits=8, shape=(8, 8, 3), seed=3)
training = tfhet.distribute(tfhet.Pipeline(source, "random_flip(); rescale()", batch_size=4))
validation = tfhet.distribute(tfhet.Pipeline(source, "rescale()", batch_size=4, shuffle=0), training=False)
notes = Notes()
for _ in range(EPOCHS):
    for _ in training:
        notes.batch([])
        notes.step()
    notes.end("training")
    for images, _ in validation:
        notes.batch(int(image.sum() * 1e6) for image in images.numpy())
    notes.end("validation")
notes.write()
