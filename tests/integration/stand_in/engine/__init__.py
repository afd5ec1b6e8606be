"""Stands in for the engine in tests of supervision: the fake worker on the gateway's socket."""
