from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loadtest.load.charts import dot_chart, line_chart, shares_below

NUMBERS = st.floats(-1e6, 1e6)


def test_shares_rise_to_one_and_end_at_the_largest_value() -> None:
    points = shares_below([3.0, 1.0, 2.0, 4.0])

    assert points == [(1.0, 0.25), (2.0, 0.5), (3.0, 0.75), (4.0, 1.0)]


def test_percentiles_count_each_value_by_its_weight() -> None:
    assert shares_below([2.0, 1.0], [3.0, 1.0]) == [(1.0, 0.25), (2.0, 1.0)]


def test_many_values_become_few_points_with_both_ends() -> None:
    points = shares_below([float(number) for number in range(100_000)])

    assert len(points) < 1_000
    assert (points[0][0], points[-1]) == (0.0, (99_999.0, 1.0))


def test_no_value_is_no_chart() -> None:
    assert line_chart({"a": []}, x="x", y="y") == "<p>No value.</p>"
    assert shares_below([]) == []


def test_names_and_labels_are_escaped() -> None:
    chart = line_chart({"<b>": [(0, 0), (1, 1)]}, x="a&b", y="y")

    texts = [element.text for element in ET.fromstring(chart).iter("text")]
    assert {"<b>", "a&b"} <= set(texts)


@pytest.mark.parametrize("logarithmic", [False, True])
@given(points=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30))
@example(points=[(0.0, 5e-324)])
@example(points=[(5e-324, 0.0), (1e-310, 1.0)])
@example(points=[(1e6, 0.0), (1000000.0000000001, 1.0)])
def test_every_chart_is_well_formed_and_stays_in_its_picture(
    logarithmic: bool, points: list[tuple[float, float]]
) -> None:
    chart = line_chart({"a": points}, x="x", y="y", logarithmic_x=logarithmic)

    (line,) = ET.fromstring(chart).iter("polyline")
    places = [tuple(map(float, each.split(","))) for each in line.attrib["points"].split()]
    assert all(0 <= x <= 640 and 0 <= y <= 300 for x, y in places)


def test_dots_are_drawn_one_for_each_point() -> None:
    chart = dot_chart({"a": [(0, 1), (2, 3)], "b": [(1, 1)]}, x="x", y="y")

    assert len(list(ET.fromstring(chart).iter("circle"))) == 3
