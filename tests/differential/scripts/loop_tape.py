"""A loop of one's own with GradientTape and Horovod, and the loss of validation summed over the ranks."""

import tensorflow as tf
from keras_notes import arrays, model
from notes import EPOCHS, Notes

import tfhet
import tfhet.horovod as hvd

hvd.init()
data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.shuffle(16).batch(4)).prefetch(2)
validation = tfhet.distribute(data.batch(4), training=False)
network, optimizer, notes = model(), tf.keras.optimizers.SGD(0.01), Notes()
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, network(images, training=True))
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply_gradients(
        zip(tape.gradient(loss, network.trainable_variables), network.trainable_variables, strict=True)
    )
    return loss


for epoch in range(EPOCHS):
    for step, (images, labels) in enumerate(training):
        train(images, labels)
        if epoch == 0 and step == 0:
            hvd.broadcast_variables(network.variables, root_rank=0)
        notes.batch(labels.numpy())
        notes.step()
    notes.end("training")
    total = 0.0
    for images, labels in validation:
        total += float(loss_of(labels, network(images))) * len(labels)
        notes.batch(labels.numpy())
    notes.end("validation")
    mean = float(hvd.allreduce(tf.constant(total), op=hvd.Sum)) / 64
    print(f"epoch {epoch} val_loss {mean:.4f}")
notes.write()
