"""A loop in MultiWorkerMirroredStrategy, which takes the place of `fit` under Keras 3."""

import tensorflow as tf
from keras_notes import arrays, model
from notes import EPOCHS, Notes

import tfhet

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.from_tensor_slices(arrays())
training = strategy.experimental_distribute_dataset(tfhet.distribute(data.shuffle(16).batch(4)))
validation = strategy.experimental_distribute_dataset(tfhet.distribute(data.batch(4), training=False))
with strategy.scope():
    network, optimizer = model(), tf.keras.optimizers.SGD(0.01)
    network(arrays()[0][:1])
    optimizer.build(network.trainable_variables)


@tf.function
def train(batch):
    def step(images, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images, training=True))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return loss

    return strategy.reduce("MEAN", strategy.run(step, batch), axis=None)


notes = Notes()
for _ in range(EPOCHS):
    for batch in training:
        train(batch)
        notes.batch(strategy.gather(batch[1], axis=0).numpy())  # of all ranks
        notes.step()
    notes.end("training")
    for batch in validation:
        notes.batch(strategy.gather(batch[1], axis=0).numpy())
    notes.end("validation")
notes.write()
