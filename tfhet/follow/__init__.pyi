from .examination import COLUMNS as COLUMNS, Examined as Examined, examine as examine
from .following import Followed as Followed, follow as follow
