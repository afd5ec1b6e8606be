"""Python imports this file at the start of each process that has its folder on PYTHONPATH."""

import os

if os.environ.get("SPECGATE_V2_ON_CPUS") == "1":
    import interpreted  # type: ignore[import-not-found]  # beside this file

    interpreted.prepare()
