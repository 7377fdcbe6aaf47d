from . import harness as harness
from .calibration import Calibration as Calibration, calibrate as calibrate
from .case import Case as Case, Measurement as Measurement
from .conditions import Conditions as Conditions, code as code
from .harness import in_rounds as in_rounds, measure as measure
from .meter import ProcessMeter as ProcessMeter, Sample as Sample
from .suite import NAMES as NAMES, Suite as Suite, suite_named as suite_named
