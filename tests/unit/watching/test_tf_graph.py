import pytest

from tfhet.watching.inside.tf_graph import SLACK_S, Times

TIMES = Times([(1.0, 1.5), (2.0, 2.5), (3.0, 3.1)])


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        ((2.1, 2.4), (2.0, 2.5)),
        ((3.05, 3.06), (3.0, 3.1)),
        ((2.0 - SLACK_S / 2, 2.5 + SLACK_S / 2), (2.0 - SLACK_S / 2, 2.5 + SLACK_S / 2)),
        ((0.5, 0.9), (0.5, 0.9)),
        ((1.6, 1.9), (1.6, 1.9)),
        ((4.0, 4.2), (4.0, 4.2)),
    ],
)
def test_request_in_the_graph_encloses_its_note(noted, found):
    assert TIMES.around(*noted) == found


def test_no_graph_has_no_times():
    assert Times([]).around(1.0, 2.0) == (1.0, 2.0)
