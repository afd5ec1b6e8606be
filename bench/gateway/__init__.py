"""What the gateway costs, beside other routers: one request, many at once, CPU and memory."""
