"""All ranks train together until rank $VICTIM fails in the way that $WAY names. The others lose it during a collective operation."""
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
    if os.environ["WAY"] == "exception":
        raise ValueError("the data has no labels")
    if os.environ["WAY"] == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)
while True:
    dist.all_reduce(step)
