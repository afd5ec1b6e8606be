"""Measures which worker a request should go to: the gateway's rule against others and an oracle."""
