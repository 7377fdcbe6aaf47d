"""Hyperparameters in the form that SageMaker's training toolkit reads: JSON values as text."""

from __future__ import annotations

import json
from typing import Any

from tfhet.control import SECRET_VARIABLE
from tfhet.submit.job import MPI, Job

OWN = "sagemaker_"
"""Prefix of the toolkit's own hyperparameters."""
MOST = 100
"""Maximum number of hyperparameters in a request."""
MOST_GIVEN = MOST - 12
"""Maximum number in a job file: `hyperparameters` adds at most the rest."""
MPI_OPTIONS = f"-x {SECRET_VARIABLE}"
"""mpirun passes the secret on to ranks on other hosts; only the variable's name stands on its command line."""


def hyperparameters(job: Job, job_name: str, archive_uri: str) -> dict[str, str]:
    """All hyperparameters of a request, each a JSON value as text.

    archive_uri: of sourcedir.tar.gz. With MPI the toolkit starts the ranks, on the dnn group only; else nothing is said
    of a distribution, and every host starts its launcher once.
    """
    found: dict[str, Any] = {
        **job.parameters,
        "sagemaker_submit_directory": archive_uri,
        "sagemaker_program": job.code.script,
        "sagemaker_container_log_level": 20,
        "sagemaker_job_name": job_name,
    }
    if job.region:
        found["sagemaker_region"] = job.region
    if job.start == MPI:
        found["sagemaker_mpi_enabled"] = True
        found["sagemaker_mpi_num_of_processes_per_host"] = job.dnn.ranks
        found["sagemaker_mpi_custom_mpi_options"] = MPI_OPTIONS
        if job.grouped:
            found["sagemaker_distribution_instance_groups"] = [job.dnn.name]
    return {name: json.dumps(value) for name, value in sorted(found.items())}
