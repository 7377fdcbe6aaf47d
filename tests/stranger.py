"""Plain TensorFlow that does what tf.data service lets anyone do: `python stranger.py HOST:PORT` registers a worker and
a data set at a dispatcher, and reads from it; and says what it could do. It asks for an hour."""

import sys

import tensorflow as tf

service, dispatcher = tf.data.experimental.service, sys.argv[1]
print("ASKS", flush=True)
try:
    worker = service.WorkerServer(service.WorkerConfig(dispatcher, dispatcher_timeout_ms=3_000))
    print("REGISTERED a worker", flush=True)
except (RuntimeError, tf.errors.OpError):
    pass
data = tf.data.Dataset.range(3)
service.register_dataset(f"grpc://{dispatcher}", data)
print("REGISTERED data", flush=True)
print("READ", list(data.apply(service.distribute("parallel_epochs", f"grpc://{dispatcher}"))), flush=True)
