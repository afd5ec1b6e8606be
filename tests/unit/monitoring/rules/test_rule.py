from monitoring.rules import Alert, Condition


def test_conditions_are_joined_from_left_to_right() -> None:
    alert = Alert(
        "Name",
        "warning",
        "5m",
        (Condition("a", "> 1"), Condition("b / c", "< 2", joined="and on (x)")),
        "summary",
        "description",
        "entry",
    )

    assert alert.expression == "(a) > 1\nand on (x) (b / c) < 2"


def test_an_alert_leads_to_its_entry_in_the_runbook() -> None:
    alert = Alert("Name", "critical", "0m", (Condition("a", "> 1"),), "s", "d", "some-entry")

    assert alert.runbook_url == "[[runbookUrl]]#some-entry"
