from . import harness as harness
from .calibration import Calibration as Calibration, calibrate as calibrate
from .case import Case as Case, Measurement as Measurement, ProcessMeter as ProcessMeter, Sample as Sample
from .harness import in_rounds as in_rounds, measure as measure
from .suite import NAMES as NAMES, Conditions as Conditions, Suite as Suite, code as code, suite_named as suite_named
