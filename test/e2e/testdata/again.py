"""A training that takes $LOAD_SECONDS to load its data when it starts again in its pod.

Rank 0 reports steps from 1, and from 1000001 when it has started again. A process fails in its first run when /tmp/fail
exists.
"""
import json
import os
import pathlib
import sys
import time

started, fail = pathlib.Path("/tmp/started"), pathlib.Path("/tmp/fail")
is_first = not started.exists()
started.touch()
if not is_first:
    print("loading the data again", flush=True)
    time.sleep(int(os.environ["LOAD_SECONDS"]))
step = 1 if is_first else 1000001
while not (is_first and fail.exists()):
    if os.environ["RANK"] == "0":
        with open(os.environ["T9K_PROGRESS_FILE"], "a") as reports:
            reports.write(json.dumps({"step": step}) + "\n")
    step += 1
    time.sleep(1)
sys.exit(1)
