"""tf.data service beside other ways to move bytes."""
