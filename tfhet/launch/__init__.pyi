from .assignment import Assignment as Assignment, known_roles as known_roles
from .entry import main as main
from .init import LAUNCHER_NAME as LAUNCHER_NAME
from .settings import LaunchSettings as LaunchSettings
