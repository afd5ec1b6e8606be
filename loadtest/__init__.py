"""Load tests over HTTP: scenarios are data, the client keeps raw clocks, the report computes."""
