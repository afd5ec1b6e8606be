"""`make bench-exact`: the same prompts in every setting, and whether drafts change an answer.

The reference of each dtype and kernels is a worker that cannot draft, asked one prompt at a time
(plan.py). Every other setting asks the same prompts (prompts.py) while tokens are drafted, and its
answers are compared with the reference's by `gateway.verify.compare` (report.py). Answers are kept
in a folder (records.py), so that an interrupted run goes on.
"""
