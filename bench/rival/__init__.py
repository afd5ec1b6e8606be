"""`make bench-rival`: specgate beside llama-server, which a person with a small machine may prefer.

llama.py builds llama-server from its source package, contest.py starts all servers and asks them in
turn, report.py computes. All have the same file of weights, and nobody gets a prompt twice.
"""
