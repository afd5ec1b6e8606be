"""The chart's values as code, and what is written from them; the chart itself is `specgate/`."""
