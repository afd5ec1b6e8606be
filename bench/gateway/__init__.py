"""Benchmark of the gateway and other routers: latency, throughput, CPU and memory."""
