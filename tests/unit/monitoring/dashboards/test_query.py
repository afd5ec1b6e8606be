from monitoring.dashboards.query import Query, happened, mean, quantiles, targets


def test_signs_become_matchers_of_the_variables() -> None:
    query = Query('sum(rate(x{@model, kind="a"}[$window])) / sum(y{@worker})')

    assert query.expression == (
        'sum(rate(x{namespace=~"$namespace", model=~"$model", kind="a"}[$window]))'
        ' / sum(y{namespace=~"$namespace", instance=~"$worker"})'
    )


def test_targets_have_letters_in_order() -> None:
    made = [target.build() for target in targets([Query("a"), Query("b"), Query("c")])]

    assert [getattr(target, "ref_id", None) for target in made] == ["A", "B", "C"]


def test_quantiles_keep_the_labels_that_tell_series_apart() -> None:
    median, tail = quantiles("x_bucket{@gateway}", by="mode", legend="{{mode}}")

    assert median.promql == (
        "histogram_quantile(0.5, sum by (le, mode) (rate(x_bucket{@gateway}[$window])))"
    )
    assert tail.promql.startswith("histogram_quantile(0.99, ")
    assert (median.legend, tail.legend) == ("p50 {{mode}}", "p99 {{mode}}")


def test_quantiles_of_everything_have_a_plain_name() -> None:
    median, _ = quantiles("x_bucket{@gateway}", by="", legend="")

    assert "sum by (le) " in median.promql
    assert median.legend == "p50"


def test_what_happens_for_the_first_time_is_counted() -> None:
    assert happened("x{@gateway}") == (
        "((x{@gateway} unless x{@gateway} offset $window) or increase(x{@gateway}[$window]))"
    )


def test_a_mean_is_the_sum_over_the_count() -> None:
    assert mean("x", "@worker", by="phase") == (
        "sum by (phase) (rate(x_sum{@worker}[$window]))"
        " / sum by (phase) (rate(x_count{@worker}[$window]))"
    )
