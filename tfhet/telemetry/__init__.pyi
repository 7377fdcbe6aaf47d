from .endpoint import serve_metrics as serve_metrics
from .gpus import GpuMonitor as GpuMonitor, gpu_count as gpu_count
from .host_counters import (
    cpu_quota as cpu_quota,
    host_counters as host_counters,
    memory_limit as memory_limit,
    oom_kills as oom_kills,
    own_volume as own_volume,
)
from .metric import (
    METRICS as METRICS,
    UP as UP,
    Metric as Metric,
    emf_line as emf_line,
    training_metrics as training_metrics,
)
from .sampler import Sampler as Sampler
from .tensorboard import ScalarFile as ScalarFile, write_scalars as write_scalars
from .timeline_summary import (
    host_cpus as host_cpus,
    process_summaries as process_summaries,
    rank_summaries as rank_summaries,
    timeline_json as timeline_json,
    timeline_tables as timeline_tables,
)
from .trace import chrome_trace as chrome_trace, write_chrome_trace as write_chrome_trace
