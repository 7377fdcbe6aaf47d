"""Findings as sentences: the only place of the advice that has words.

Beside Python's own, a placeholder of a template takes these formats: `{count:~map}` gives `1 map` or `2 maps`,
`{name:binds}` the name with `bind` or `binds`, `{fact:?before|after}` the fact between two texts, or nothing where it
is empty or not known, `{truth:&text}` the text where it is true. `{about}` is the finding that is quoted.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from typing import Any

from tfhet.advice.finding import Finding
from tfhet.advice.input_bound import Diagnosis

_STEP = "{step_ms:.3g} ms ({low_ms:.3g} to {high_ms:.3g})"
_CLUSTER = "{cluster}: " + _STEP + " a step of {examples} examples{usd:?, | USD per million examples}"
_AGAINST = " ({change_pct:+.0f}% {unit} against {other}{is_within_error:&, within the error})"
_PART = "({us:.1f} us of {whole_us:.1f})"

_PIPELINE = {
    "python_inside": "{part!r} calls Python for every element " + _PART + ": one core at most, and never on a data"
    " host. Write it with TensorFlow operations (the estimate is all of it)",
    "single_images": "{maps:~map} on single elements " + _PART + ": batch first and map over {batch} at once"
    "{stages:?; tfhet has | for whole batches} (the estimate is the function calls alone, {call_us:g} us each)",
    "wide_wire": "send examples after {part!r}, {bytes} B each, not at the end ({end_bytes} B): {times:.1f} times fewer"
    " bytes between hosts, with {rest!r} on the trainer ({rest_us:.1f} us per example)",
    "whole_then_crop": "{part!r} decodes whole images " + _PART + " of which a part is kept: decode() followed by"
    " random_resized_crop() decodes only the window (half the pixels on average at the usual scale of 0.08 to 1: the"
    " estimate is a third of it, as entropy decoding stays)",
    "sequential_map": "{part!r} runs on one thread " + _PART + ", so at most {examples_per_s:.0f} examples per second:"
    " give it num_parallel_calls=tf.data.AUTOTUNE (saves time, no CPU)",
    "dominant_source": "{part!r} is {share:.0%} of the cost ({us:.1f} of {whole_us:.1f} us per example): parse whole"
    " batches (tf.io.parse_example), store images as raw bytes, or read with TFRecordSource, which reads blocks of"
    " records (about 1 us for 3 kB); the estimate is half of it",
    "dominant_part": "{part!r} is {share:.0%} of the cost " + _PART + ": look here first (the estimate is half of it)",
    "dominant_part_with_stage": "{part!r} is {share:.0%} of the cost " + _PART + ": tfhet's {stages} does its work on"
    " whole batches (the estimate is half of it)",
    "named_change": "{change}",
    "feeding": "{examples_per_s:g} examples per second, cut after {part!r}: {data_cores:.2f} cores of data hosts"
    " ({whole_cores} whole ones), {trainer_cores:.2f} on the trainer, {mb_per_s:.1f} MB/s between them",
}
_PLAN = {
    "today": "today, " + _CLUSTER + ": {binding:binds}, {runner_up} next",
    "prediction_keeps_up": "the input keeps up with the accelerator: neither cheaper stages nor more CPUs shorten a"
    " step",
    "prediction_waits": "the accelerator could do a step in " + _STEP + ": it waits {wait_pct:.0f}% of the time",
    "cheaper_stages": "cheaper stages first, they cost nothing: {about}. A step would take {step_ms:.3g} ms at best",
    "no_cheaper_stages": "cheaper stages: the profile knows of none",
    "best_homogeneous": "without a data group the best is " + _CLUSTER + _AGAINST,
    "today_is_best_homogeneous": "no other cluster without a data group is better",
    "best_with_data": "with a data group the best is " + _CLUSTER + _AGAINST + "{break_even_usd:?; a data host pays"
    " below | USD per hour}{never_pays:&; a data host pays at no price}",
    "no_data_group_fits": "with a data group: none keeps the limits",
    "stay": "stay with {cluster}: {binding:binds}",
    "take": "take {cluster}: {binding:binds}",
    "take_homogeneous": "stay homogeneous: take {cluster}: {binding:binds}",
    "none_fits": "no cluster keeps the limits: allow more time, money or hosts",
}
_STATE = {
    "input_bound": "input-bound: {wait_pct:.1f} % of the step is waiting for data, without which it would be"
    " {speedup:.2f} times faster{about:?; |}",
    "only_waiting": "input-bound: {wait_pct:.1f} % of the step is waiting for data, all of it{about:?; |}",
    "hardly_input_bound": "hardly input-bound: waiting for data is {wait_pct:.1f} % of the step, so a perfect input"
    " would make it {speedup:.2f} times faster{about:?; |}",
    "keeps_up": "not input-bound: waiting for data is {wait_pct:.1f} % of the step, so a perfect input would make it"
    " {speedup:.2f} times faster{about:?; |}",
    "gpus_rest": "the GPUs rest inside the step, which leaves them too little to do",
    "no_steps": "whether this run waited for its input is not known: no step of it was measured",
    "no_gpu_metrics": "whether this job waits for its input is not known: its log has no metric lines, and CloudWatch"
    " has nothing of GPUs",
    "gpus_are_busy": "not input-bound, as far as utilisation tells: the GPUs are busy {gpu_pct:.1f} % of the time",
    "gpus_are_half_busy": "hardly input-bound, as far as utilisation tells: the GPUs are busy {gpu_pct:.1f} % of the"
    " time, and {about}",
    "gpus_wait": "input-bound, as far as utilisation tells: the GPUs are busy {gpu_pct:.1f} % of the time, and {about}",
    "nothing_kept": "CloudWatch has no utilisation of {job} ({status}), and its log no metric lines: it ended within"
    " its first minutes, or so long ago that nothing is kept, or --region is another",
    "nothing_yet": "there is nothing of {job} yet ({status}): CloudWatch counts whole minutes, and has the first some"
    " minutes after training began. Ask again then",
}
_REASON = {
    "data_cpus_used_up": "the CPUs of the data hosts are used up",
    "training_cpus_used_up": "the CPUs of the training hosts are used up, those of the data hosts are not",
    "cpus_used_up": "the CPUs are used up",
    "no_cpus_used_up": "no CPUs are used up: the data hosts wait for their source or the network, or a stage runs on"
    " one thread",
    "cpus_not_used_up": "the CPUs are not used up: a stage runs on one thread, or waits for the source or the network",
    "cpus_unknown": "how busy the CPUs are is not known",
}
_EVIDENCE = {
    "waited": "waiting for data: {wait_pct:.1f} % of the step, of {lines:~metric line}",
    "no_metric_lines": "the log has no metric lines ([tfhet] step=...): how long ranks wait for data is not known",
    "used": "{resource} of {hosts:~{role} host}: {median_pct:.1f} % (p10 {p10_pct:.0f}, p90 {p90_pct:.0f}){about:?; |}",
    "uneven": "uneven: {least_host} {least_pct:.0f}, {most_host} {most_pct:.0f}",
    "memory_nearly_full": "nearly full, memory: {hosts}. Look at shuffle buffers and caches",
    "disk_nearly_full": "nearly full, disk: {hosts}. Look at what is cached or written there",
}
_LEVER = {
    "shorten_step": "first shorten the training step itself: neither cheaper stages nor more CPUs do that",
    "larger_batch": "a larger batch: {gpu_memory_pct:.1f} % of the GPUs' memory is used",
    "fewer_data_hosts": "fewer data hosts: their CPUs are used to {cpu_pct:.1f} %",
    "fewer_data_cpus": "first try fewer data CPUs, since the busiest data host, {host}, used {cpu_pct:.1f} % of them",
    "find_the_wait": "first find out why, since the busiest data host, {host}, used {cpu_pct:.1f} % of its CPUs",
    "find_the_wait_by_tools": "find what the input waits for: `tfhet doctor --script SCRIPT` names stages on one thread"
    " and Python in the graph, `tfhet profile` what each costs; FastFile channels, more files and prefetching help a"
    " slow source",
    "measure_the_pipeline": "first measure the pipeline with `tfhet profile`: cheaper stages come before more machines",
    "cheaper_part": "first make {part} cheaper, which is {share_pct:.0f} % of the pipeline's CPU",
    "dear_source": "first look at {part}, which is {share_pct:.0f} % of the pipeline's CPU",
    "profile_first": "cheaper stages first, they cost nothing: `tfhet profile` says which cost what, and advises",
    "more_cpus_last": "more CPUs, in whatever machine, only when those that are there are used up",
    "bigger_unknown": "then a bigger size of the same family: {today} is no type of the catalogue, so which is not"
    " known",
    "bigger_none": "a bigger size of the same family: {family} has none with more CPUs for {gpus:~GPU}",
    "bigger": "then a bigger size: {bigger} has {vcpus} vCPUs for {gpus:~GPU}, {today} has {today_vcpus}",
    "more_data_hosts": "more data hosts: `tfhet plan --profile FILE --cluster {cluster}` says how many pay, and what"
    " they save",
    "data_group": "then a data group: `tfhet plan --profile FILE --cluster {cluster}` says how many hosts pay, and what"
    " they save",
    "plan_says": "the plan says: {about}",
    "print_metric_lines": "run the script with tfhet's launcher, whose trainer prints the metric line that has"
    " `wait_pct`",
    "switch_timeline_on": "hyperparameter timeline=steps: where the time of each step goes, and what each host sends"
    " and receives, which SageMaker does not publish",
    "switch_profiler_on": "SageMaker's profiler is off; in the request: {settings}",
}
TEMPLATES: Mapping[str, str] = {**_PIPELINE, **_PLAN, **_STATE, **_REASON, **_EVIDENCE, **_LEVER}
"""The clause of each kind of finding, which begins in lower case and has no full stop."""


class _Formatter(string.Formatter):
    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion == "r" and isinstance(value, tuple):
            return ", ".join(map(repr, value))
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        how, rest = format_spec[:1], format_spec[1:]
        if how == "~":
            return f"{value} {rest}{'' if value == 1 else 's'}"
        if format_spec == "binds":
            return f"{value} {'bind' if str(value).split()[0].endswith('s') else 'binds'}"
        if how == "?":
            before, _, after = rest.partition("|")
            shown = f"{value:.3g}" if isinstance(value, float) else _plain(value)
            return f"{before}{shown}{after}" if shown else ""
        if how == "&":
            return rest if value else ""
        return str(super().format_field(value if format_spec else _plain(value), format_spec))


_FORMATTER = _Formatter()


def _plain(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else "" if value is None else str(value)


def clause(finding: Finding) -> str:
    """A finding in words, to stand inside a sentence: without a capital letter and a full stop."""
    about = clause(finding.about) if finding.about else ""
    return _FORMATTER.vformat(TEMPLATES[finding.kind], (), {**finding.facts, "about": about})


def sentence(finding: Finding) -> str:
    """A finding as a sentence."""
    text = clause(finding)
    return f"{text[:1].upper()}{text[1:]}."


def sentences(findings: Iterable[Finding]) -> list[str]:
    """Findings as sentences, in their order."""
    return [sentence(finding) for finding in findings]


def paragraph(found: Diagnosis) -> str:
    """A diagnosis in short: the verdict, and what to do."""
    return " ".join(sentences([found.verdict, *found.levers]))
