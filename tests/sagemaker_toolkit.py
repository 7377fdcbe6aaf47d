"""What SageMaker's training toolkit reads on a host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# In its own process, with a new import for each host: the toolkit reads its base directory when it is imported, and
# changes the environment.
_CODE = """
import json, os, sys
before = dict(os.environ)
for variables in json.load(sys.stdin):
    os.environ.clear()
    os.environ.update({**before, **variables})
    for name in [name for name in sys.modules if name.startswith("sagemaker_training")]:
        del sys.modules[name]
    from sagemaker_training.environment import Environment
    toolkit = Environment()
    found = [toolkit.to_env_vars(), toolkit.to_cmd_args(), toolkit.user_entry_point, toolkit.job_name]
    print(json.dumps(found))
"""


@dataclass(frozen=True)
class ToolkitEnvironment:
    variables: dict[str, str]
    arguments: list[str]
    entry_point: str
    job_name: str


def toolkit_environments(hosts: Iterable[Mapping[str, str]]) -> list[ToolkitEnvironment]:
    """The environments that the toolkit makes for hosts. hosts: variables of each, such as SAGEMAKER_BASE_DIR."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SM_", "SAGEMAKER_"))}
    words = [sys.executable, "-c", _CODE]
    text = json.dumps(list(map(dict, hosts)))
    done = subprocess.run(words, env=env, input=text, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("[{")]
    return [ToolkitEnvironment(*json.loads(line)) for line in lines]
