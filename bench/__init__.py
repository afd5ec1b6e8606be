"""Benchmarks: each prints progress on stderr and, last, one line of JSON with what it measured."""
