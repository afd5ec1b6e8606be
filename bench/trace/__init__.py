"""What it costs to tell clients the origin of each token (`make bench-trace`)."""
