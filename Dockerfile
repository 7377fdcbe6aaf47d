# The image for SageMaker: TensorFlow's own, and on top of it Open MPI, sshd, Horovod, SageMaker's training toolkit and tfhet.
#
#   docker build -t tfhet-gpu .                              GPU instances: Horovod with NCCL
#   docker build -t tfhet-cpu --build-arg DEVICE=cpu .       CPU instances
#
# Needs BuildKit (Docker 23 or newer). Python packages have the versions of requirements-classic.lock; TensorFlow is the base's.
# scripts/lint reads this file with hadolint; scripts/image --check builds and runs the CPU variant with buildah.

# Ubuntu's archive keeps only the newest build of a package, so a pinned one would soon be gone.
# hadolint global ignore=DL3008

ARG DEVICE=gpu
ARG TENSORFLOW=2.15.0.post1

FROM docker.io/tensorflow/tensorflow:${TENSORFLOW} AS cpu
FROM docker.io/tensorflow/tensorflow:${TENSORFLOW}-gpu AS gpu


# --- wheels: whatever has to be compiled, and what is installed with it ---

# hadolint ignore=DL3006
FROM ${DEVICE} AS wheels
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive

RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends g++ libopenmpi-dev make python3.11-dev \
 && rm -rf /var/lib/apt/lists/*

# An environment of its own, because the base's Python packages are partly Ubuntu's, which pip cannot replace. It sees
# TensorFlow. The tools are what Horovod 0.28.1 and the toolkit build with.
WORKDIR /build
COPY requirements-classic.lock .
RUN python -m venv --system-site-packages /opt/tfhet \
 && grep -E '^(cmake|flit-core|pip|setuptools|wheel)==' requirements-classic.lock >tools.txt \
 && /opt/tfhet/bin/python -m pip install --no-cache-dir --no-deps -r tools.txt
ENV PATH=/opt/tfhet/bin:$PATH

# All that tfhet, the toolkit and Horovod need beside TensorFlow. Without dependencies: the toolkit asks for a protobuf
# that TensorFlow 2.15 does not allow, and runs with the older one.
RUN grep -E "^($(echo \
        argcomplete bcrypt boto3 botocore cffi cloudpickle cryptography gevent google-crc32c greenlet inotify-simple invoke jinja2 jmespath lazy-loader \
        markdown-it-py markupsafe mdurl mpi4py msgspec numpy packaging paramiko pillow pip prometheus-client protobuf psutil pycparser \
        pygments pynacl python-dateutil pyyaml retrying rich s3transfer sagemaker-training scipy setuptools six \
        typing-extensions urllib3 werkzeug zope-event zope-interface | tr ' ' '|'))==" requirements-classic.lock >packages.txt \
 && python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels -r packages.txt

# Horovod. NCCL is the one that TensorFlow 2.15.1 names (tensorflow[and-cuda]), shared, so that a process has one.
# 70: V100 (p3), 75: T4 (g4dn), 80: A100 (p4), 86: A10G (g5), 89: L4 and L40S (g6), 90: H100 and H200 (p5).
ARG DEVICE
ARG NCCL=2.16.5
RUN if [ "$DEVICE" = gpu ]; then \
        python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels "nvidia-nccl-cu12==$NCCL" \
     && python -m pip install --no-cache-dir --no-deps /wheels/nvidia_nccl_cu12-*.whl \
     && nccl=$(python -c 'import nvidia.nccl; print(nvidia.nccl.__path__[0])') \
     && ln -s libnccl.so.2 "$nccl/lib/libnccl.so" \
     && export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED HOROVOD_NCCL_INCLUDE="$nccl/include" \
            HOROVOD_NCCL_LIB="$nccl/lib" HOROVOD_CUDA_HOME=/usr/local/cuda HOROVOD_BUILD_CUDA_CC_LIST=70,75,80,86,89,90; \
    fi \
 && grep '^horovod==' requirements-classic.lock >horovod.txt \
 && HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 \
    MAKEFLAGS="-j$(nproc)" \
    python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels -r horovod.txt

# tfhet, as it is in the build context.
COPY pyproject.toml setup.cfg README.md LICENSE ./
COPY tfhet tfhet
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --no-index --wheel-dir /wheels .


# --- the image ---

# hadolint ignore=DL3006
FROM ${DEVICE} AS image
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ARG DEVICE
LABEL org.opencontainers.image.title="tfhet" \
      org.opencontainers.image.description="tf.data service and Horovod on heterogeneous SageMaker clusters (${DEVICE})" \
      org.opencontainers.image.licenses="Apache-2.0"
# Lines reach the log when they are printed. Of TensorFlow errors only: its dispatcher warns every second.
ENV LANG=C.UTF-8 \
    PATH=/opt/tfhet/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TF_CPP_MIN_LOG_LEVEL=2

# g++, libjpeg-dev, libpng-dev, libwebp-dev: some stages are compiled for the instance's CPU where they are first used.
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        g++ libjpeg-dev libpng-dev libwebp-dev openmpi-bin openssh-client openssh-server \
 && rm -rf /var/lib/apt/lists/*

# The toolkit starts sshd on the dnn hosts, and mpirun goes from host to host as root with the key pair of the image: who
# has the image has the key. pam_loginuid ends the session in a container that may not write audit records.
RUN mkdir -p /run/sshd /root/.ssh \
 && chmod 700 /root/.ssh \
 && ssh-keygen -A \
 && ssh-keygen -q -t ed25519 -N '' -C tfhet -f /root/.ssh/id_ed25519 \
 && cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys \
 && printf 'Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n' >/root/.ssh/config \
 && chmod 600 /root/.ssh/config /root/.ssh/authorized_keys \
 && printf 'PermitRootLogin prohibit-password\nPasswordAuthentication no\n' >/etc/ssh/sshd_config.d/tfhet.conf \
 && sed -i 's/^session\s\+required\s\+pam_loginuid.so/session optional pam_loginuid.so/' /etc/pam.d/sshd \
 && /usr/sbin/sshd -t

RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    python3 -m venv --system-site-packages /opt/tfhet \
 && python -m pip install --no-cache-dir --no-deps --no-index /wheels/pip-*.whl \
 && python -m pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
 && if [ "$DEVICE" = gpu ]; then \
        python -c 'import nvidia.nccl; print(nvidia.nccl.__path__[0] + "/lib")' >/etc/ld.so.conf.d/nccl.conf && ldconfig; \
    fi \
 && GPU=$([ "$DEVICE" = gpu ] && echo 1 || echo 0) python -c 'import os, horovod.tensorflow as hvd, sagemaker_training, tfhet; \
assert hvd.mpi_built() and hvd.gloo_built() and bool(hvd.nccl_built()) == (os.environ["GPU"] == "1")'

# PID 1 hears SIGTERM, which the toolkit would drop, and tells the launchers. SageMaker starts the image with `train`.
ENTRYPOINT ["python", "-m", "tfhet.launch.init"]
CMD ["train"]
