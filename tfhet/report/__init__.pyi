from .compared import Comparison as Comparison, compare as compare
from .cost import PriceOf as PriceOf, bill as bill, prices_in as prices_in
from .html import Given as Given, page as page, read_given as read_given, write_html as write_html
from .live import Screen as Screen, screen as screen, top as top
from .log_lines import (
    gathered as gathered,
    harmless as harmless,
    has_colours as has_colours,
    is_error as is_error,
    painted as painted,
    place_of as place_of,
    printable as printable,
)
from .numbers import duration as duration, number as number, usd as usd
from .picture import Picture as Picture
from .run_tables import (
    COLUMNS as COLUMNS,
    run_list as run_list,
    run_rows as run_rows,
    run_table as run_table,
    show_next as show_next,
)
from .run_view import RunView as RunView
from .script_error import ErrorFinder as ErrorFinder
from .tables import (
    Step as Step,
    figure_table as figure_table,
    progress_of as progress_of,
    show as show,
    table as table,
    text as text,
)
