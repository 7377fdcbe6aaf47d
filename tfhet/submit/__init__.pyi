from . import archive as archive, job_file as job_file, rules as rules, source_dir as source_dir
from .alarms import Alarms as Alarms
from .archive import Archive as Archive
from .cost import highest_cost as highest_cost
from .job import ALONE as ALONE, PIPE as PIPE, Channel as Channel, Code as Code, Job as Job
from .job_file import parse as parse, read as read, with_plan as with_plan, write_plan as write_plan
from .request import DEFINITIONS as DEFINITIONS, MPI_OPTIONS as MPI_OPTIONS, create_request as create_request
from .rules import check_code as check_code
from .source_dir import LAUNCHER as LAUNCHER, TEMPLATES as TEMPLATES
from .submission import JobSubmission as JobSubmission
