import re
from dataclasses import replace

from loadtest.load.page import page_of
from loadtest.load.report import Run, report_of


def test_the_page_needs_nothing_beside_it(played: Run) -> None:
    page = page_of(played, report_of(played))

    assert not re.search(r"<(script|link|img|iframe)|url\(|@import|src=", page)
    assert page.count("<svg") == 5  # four of every run, and goodput by rate
    assert page.endswith("</html>")


def test_one_stage_has_no_chart_by_rate(played: Run) -> None:
    arrivals = played.scenario.arrivals
    arrivals = arrivals.model_copy(update={"stages": arrivals.stages[:1]})
    scenario = played.scenario.model_copy(update={"arrivals": arrivals})
    outcomes = [each for each in played.outcomes if each.arrival.stage == 0]

    run = replace(played, scenario=scenario, outcomes=outcomes)

    assert page_of(run, report_of(run)).count("<svg") == 4


def test_names_from_outside_are_escaped(played: Run) -> None:
    run = replace(played, name="<script>alert(1)</script>", url="http://x/<b>")

    page = page_of(run, report_of(run))

    assert "<script" not in page
    assert "<b>" not in page
