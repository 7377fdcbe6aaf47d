from .examination import SUBJECTS as SUBJECTS, Examination as Examination, examine as examine
from .rule import Check as Check, Rule as Rule, Status as Status
