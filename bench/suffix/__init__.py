"""`make bench-suffix`: the suffix index beside arctic-inference's, on recorded conversations.

Each side runs in a process of its own (ours.py, arctic.py), asked in turn by __main__.py through
child.py; both replay the same tokens by the same code (replay.py). Needs no GPU and no model
weights, but a real tokenizer.
"""
