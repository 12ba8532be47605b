"""All ranks train together until rank $VICTIM fails. The others lose it during a collective operation.

$WAYS has a way for each attempt of the job, separated by commas: exception, a signal such as SIGKILL, or an exit code.
"""
import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
step = torch.zeros(1)
for _ in range(20):
    dist.all_reduce(step)
if rank == int(os.environ["VICTIM"]):
    print(f"rank {rank} fails on {os.uname().nodename}", flush=True)
    way = os.environ["WAYS"].split(",")[int(os.environ["ATTEMPT"])]
    if way == "exception":
        raise ValueError("the data has no labels")
    if way.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[way])
    os._exit(int(way))
while True:
    dist.all_reduce(step)
