"""What the canary costs, and what it finds (`make bench-canary`)."""
