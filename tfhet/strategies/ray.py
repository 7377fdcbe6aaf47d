"""The strategy `ray`: one script, on the leader's host, which has the whole Ray cluster of the job.

The script starts what it needs there by Ray itself: Ray Train's workers, Ray Data's tasks. The other hosts of the dnn
group have no rank; their launchers keep a node of the cluster, which is the data plane `ray`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfhet.arguments import underscored
from tfhet.cluster import Role
from tfhet.errors import UsageError
from tfhet.strategies.rank_source import RankSource
from tfhet.strategies.solo import SoloCollective
from tfhet.strategies.strategy import Collective, Strategy

NODE = Role("node")
"""The hosts of the dnn group but the first."""
HEAD_GROUP = "--head_instance_group"
OF_AWS = {
    "-e": "--train_script",
    "--entrypoint": "--train_script",
    HEAD_GROUP: "--dnn_group",
    "--head_num_cpus": "--dnn_host_cpus",
    "--head_num_gpus": "--dnn_host_gpus",
    "--include_dashboard": "--ray_dashboard",
}
"""Arguments of AWS's launcher for Ray on SageMaker (aws-samples-for-ray, July 2026), and tfhet's own."""
WITHOUT_MEANING = ("--launch_prometheus", "--prometheus_path", "--wait_shutdown")
"""Arguments of that launcher that have no counterpart: `--metrics_port` serves Prometheus on every host."""


class RayStrategy(Strategy):
    name = "ray"
    plane = "ray"
    ranks_per_host = 1
    role_of_others = NODE

    def translated(self, argv: Sequence[str]) -> list[str]:
        """See `Strategy.translated`. AWS's arguments are those of a job that names this strategy, or its head group and
        no strategy; a script's own `-e` is left to a job that names its script otherwise."""
        words = [part for word in underscored(argv) for part in (word.split("=", 1) if word[:2] == "--" else [word])]
        pairs = dict(zip(words, words[1:], strict=False))
        if pairs.get("--strategy", "" if HEAD_GROUP in words else None) not in ("ray", ""):
            return list(argv)
        mine = dict(OF_AWS)
        if "--train_script" in words:
            mine = {word: own for word, own in mine.items() if own != "--train_script"}
        if not {*mine, *WITHOUT_MEANING} & {*words}:
            return list(argv)
        found, rest = list[str](), iter(words)
        for word in rest:
            if word in WITHOUT_MEANING:
                next(rest, None)
            else:
                found.append(mine.get(word, word))
        return found if "--strategy" in words else ["--strategy", self.name, *found]

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> None:
        if (size := len(hosts) * per_host) > 1:
            raise UsageError(
                f"the strategy 'ray' runs one script, on the first dnn host, and this job has {size} ranks: omit what "
                "starts several (--processes_per_host, mpirun); Ray starts the workers of the script"
            )

    def collective(self, size: int) -> Collective:
        return SoloCollective()


RAY = RayStrategy()
