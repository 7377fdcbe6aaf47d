"""A loop over a data set with Python in it, which the data hosts' processes make (--data_plane feed)."""

import tensorflow as tf
from notes import EPOCHS, Notes

import tfhet


def numbered(shard):
    def numbers():
        yield from range(shard.index, 64, shard.count)

    return tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64)).batch(4)


def main():
    size = tfhet.JobContext.from_env(__import__("os").environ).size
    training = tfhet.distribute(numbered, steps_per_epoch=16 // size)
    validation = tfhet.distribute(numbered, training=False)
    notes = Notes()
    for _ in range(EPOCHS):
        for numbers in training:
            notes.batch(numbers.numpy())
            notes.step()
        notes.end("training")
        for numbers in validation:
            notes.batch(numbers.numpy())
        notes.end("validation")
    notes.write()


if __name__ == "__main__":
    main()
