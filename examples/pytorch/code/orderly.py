"""Trains a small network, and saves its work when a pod of the job is about to end.

A pod that is about to end gets SIGTERM, and has its grace period to save its work: at a pause, a drain, a preemption or a deadline.
All processes must save after the same step. But they get the signal at different times, and without a pause not all of them get it.
So in each step, the processes exchange whether one of them has got the signal.
"""
import argparse
import gzip
import os
import signal
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--pause", type=float, default=0, help="seconds to wait after each step, so that you can watch it")
parser.add_argument("--checkpoint", required=True, help="file that rank 0 saves when a pod is about to end, and continues from")
parser.add_argument("--data", default="/data/digits.csv.gz", help="file with 1797 images of 8x8 pixels and the digit in the last column")
args = parser.parse_args()

# The handler only sets a flag, since the signal can come at any time, also in the middle of a step.
is_ending = False


def end(*_):
    global is_ending
    is_ending = True


signal.signal(signal.SIGTERM, end)

# If there are GPUs, each process uses one of them.
device, backend = torch.device("cpu"), "gloo"
if torch.cuda.is_available():
    device, backend = torch.device("cuda", int(os.environ["LOCAL_RANK"])), "nccl"
    torch.cuda.set_device(device)
dist.init_process_group(backend)
rank, world = dist.get_rank(), dist.get_world_size()

with gzip.open(args.data, "rt") as f:
    table = torch.from_numpy(numpy.loadtxt(f, delimiter=",", dtype=numpy.float32)).to(device)
pixels, digits = table[:, :-1] / 16, table[:, -1].long()

torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss_of = nn.CrossEntropyLoss()

# Only rank 0 has the checkpoint. It sends the contents to the other processes, which can be new.
saved = [torch.load(args.checkpoint, map_location="cpu") if rank == 0 and os.path.exists(args.checkpoint) else None]
dist.broadcast_object_list(saved)
done = 0
if saved[0]:
    done, model_state, optimizer_state = saved[0]
    model.load_state_dict(model_state)
    optimizer.load_state_dict(optimizer_state)
print(f"rank {rank} of {world} starts after step {done}", flush=True)

for step in range(done + 1, args.steps + 1):
    mine = torch.randint(len(table), (32,), device=device)
    optimizer.zero_grad()
    loss = loss_of(model(pixels[mine]), digits[mine])
    loss.backward()
    optimizer.step()
    ending = torch.tensor(float(is_ending), device=device)
    dist.all_reduce(ending, op=dist.ReduceOp.MAX)
    if ending:
        if rank == 0:
            # The file is renamed when it is complete, since the grace period can be too short.
            torch.save((step, model.state_dict(), optimizer.state_dict()), args.checkpoint + ".new")
            os.replace(args.checkpoint + ".new", args.checkpoint)
            print(f"saved step {step}", flush=True)
        dist.barrier()  # the end of a process would end the others before rank 0 has saved
        print(f"rank {rank} ends after step {step}", flush=True)
        # With 0, the job would succeed if only some of its pods were about to end.
        sys.exit(128 + signal.SIGTERM)
    if rank == 0:
        print(f"step {step}  loss {loss.item():.4f}", flush=True)
    time.sleep(args.pause)

dist.destroy_process_group()
