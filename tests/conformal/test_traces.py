import numpy as np
import pytest

from fallline.conformal import routes_from_points


def test_cells_are_counted_row_by_row_and_repeats_in_a_row_are_merged():
    trace = [(0.5, 0.5), (0.6, 0.5), (2.5, 0.5), (2.5, 1.5), (2.6, 1.4), (0.5, 0.5)]
    assert routes_from_points([trace], (0, 0, 3, 2), grid=(3, 2)) == [[0, 2, 5, 0]]


def test_borders_belong_to_the_next_cell_and_the_last_border_to_the_last():
    trace = [(0.0, 0.0), (1.0, 0.0), (2.0, 2.0)]
    assert routes_from_points([trace], (0, 0, 2, 2), grid=(2, 2)) == [[0, 1, 3]]


def test_traces_do_not_run_into_each_other():
    traces = [[(0.1, 0.1)], [(0.1, 0.1)], [], np.array([(0.1, 0.1), (0.9, 0.1)]), []]
    assert routes_from_points(traces, (0, 0, 1, 1), grid=(2, 1)) == [[0], [0], [], [0, 1], []]
    assert routes_from_points([], (0, 0, 1, 1)) == []


def test_what_lies_outside_is_one_cell_of_its_own():
    trace = [(0.5, 0.5), (1.5, 0.5), (0.5, -0.5), (0.5, 0.5)]
    assert routes_from_points([trace], (0, 0, 1, 1), grid=(1, 1)) == [[0, -1, 0]]


def test_against_a_slow_reference():
    rng = np.random.default_rng(0)
    traces = [rng.uniform(-0.1, 1.1, size=(rng.integers(0, 20), 2)) for _ in range(100)]
    expected = []
    for trace in traces:
        route = []
        for x, y in trace:
            inside = 0 <= x <= 1 and 0 <= y <= 1
            cell = int(y * 5) * 7 + int(x * 7) if inside else -1
            if not route or route[-1] != cell:
                route.append(cell)
        expected.append(route)
    assert routes_from_points(traces, (0, 0, 1, 1), grid=(7, 5)) == expected


@pytest.mark.parametrize(
    ("points", "bbox", "grid", "said"),
    [
        ([[(1, 2, 3)]], (0, 0, 1, 1), (2, 2), r"points\[0\] has shape \(1, 3\)"),
        ([[(0, 0)], [(0, np.nan)]], (0, 0, 1, 1), (2, 2), r"points\[1\] has a coordinate"),
        ([], (0, 0, 0, 1), (2, 2), "bbox="),
        ([], (0, 0, 1, 1), (0, 2), "grid="),
    ],
)
def test_errors(points, bbox, grid, said):
    with pytest.raises(ValueError, match=said):
        routes_from_points(points, bbox, grid)
