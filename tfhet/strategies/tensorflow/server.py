"""A parameter server of tf.distribute.ParameterServerStrategy: a process with TF_CONFIG, until it is ended."""

from __future__ import annotations


def main() -> None:
    """Serves the task that TF_CONFIG gives this process; returns never."""
    import tensorflow as tf

    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.config.set_visible_devices([], "GPU")  # the variables are in the host's memory
    server = tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc", start=True
    )
    print(f"{cluster.task_type} {cluster.task_id} of {cluster.cluster_spec().as_dict()} serves", flush=True)
    server.join()


if __name__ == "__main__":
    main()
