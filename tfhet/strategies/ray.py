"""The strategy `ray`: one script on the leader's host, which starts Ray Train's workers and Ray Data's tasks itself.
The launchers of the other hosts of the dnn group run nodes of the cluster, which is the data plane `ray`."""

from __future__ import annotations

from collections.abc import Sequence

from tfhet.arguments import underscored
from tfhet.cluster import Role
from tfhet.errors import UsageError
from tfhet.strategies.solo import SoloCollective
from tfhet.strategies.strategy import Collective, RankSource, Strategy

NODE = Role("node")
"""The hosts of the dnn group except the first."""
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
"""Arguments of that launcher that tfhet ignores: `--metrics_port` serves Prometheus on every host."""


class RayStrategy(Strategy):
    name = "ray"
    plane = "ray"
    ranks_per_host = 1
    role_of_others = NODE

    def translated(self, argv: Sequence[str]) -> list[str]:
        """See `Strategy.translated`. AWS's arguments count in a job that names this strategy, or its head group and no
        strategy. If the job names its script by `--train_script`, `-e` is the script's own argument."""
        named = [_named(word) for word in argv]
        names = [name for name, _ in named]
        strategy = next((_value(argv, index) for index, name in enumerate(names) if name == "--strategy"), None)
        if strategy != "ray" and (strategy is not None or HEAD_GROUP not in names):
            return list(argv)
        mine = dict(OF_AWS)
        if "--train_script" in names:
            mine = {word: own for word, own in mine.items() if own != "--train_script"}
        found, rest = list[str](), iter(zip(argv, named, strict=True))
        for word, (name, value) in rest:
            if name in WITHOUT_MEANING:
                if value is None:
                    next(rest, None)
            else:  # a script's own arguments stay as they were written
                found.append(mine[name] + ("" if value is None else f"={value}") if name in mine else word)
        return found if strategy is not None else ["--strategy", self.name, *found]

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> None:
        if (size := len(hosts) * per_host) > 1:
            raise UsageError(
                f"the strategy 'ray' runs one script, on the first dnn host, and this job has {size} ranks: omit what "
                "starts several (--processes_per_host, mpirun); Ray starts the workers of the script"
            )

    def collective(self, size: int) -> Collective:
        return SoloCollective()


def _named(word: str) -> tuple[str, str | None]:
    """The name of an argument in tfhet's spelling, and its value if it is joined by `=`."""
    name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
    return underscored([name])[0], value if equals else None


def _value(argv: Sequence[str], index: int) -> str:
    """The value of the argument at `index`, joined to it or after it, or ""."""
    joined = _named(argv[index])[1]
    return joined if joined is not None else next(iter(argv[index + 1 : index + 2]), "")


RAY = RayStrategy()
