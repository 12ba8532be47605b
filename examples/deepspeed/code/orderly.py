"""Trains a small network with DeepSpeed ZeRO stage 1, and saves its work when a pod of the job is about to end.

In each step, the processes exchange whether one of them has got SIGTERM: see examples/pytorch/code/orderly.py. If so, all of them
save their parts of a checkpoint of DeepSpeed. The training then continues with the same number of processes.
"""
import argparse
import gzip
import os
import signal
import sys
import time

import deepspeed
import numpy
import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--pause", type=float, default=0, help="seconds to wait after each step, so that you can watch it")
parser.add_argument("--checkpoints", required=True, help="folder for checkpoints, on a volume that all processes share")
parser.add_argument("--data", default="/data/digits.csv.gz", help="file with 1797 images of 8x8 pixels and the digit in the last column")
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()

# The handler only sets a flag, since the signal can come at any time, also in the middle of a step.
is_ending = False


def end(*_):
    global is_ending
    is_ending = True


signal.signal(signal.SIGTERM, end)


def say(text):
    # A single write, since the lines of all processes go into one pipe.
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# If there are GPUs, each process uses one of them.
device, backend = torch.device("cpu"), "gloo"
if torch.cuda.is_available():
    device, backend = torch.device("cuda", int(os.environ["LOCAL_RANK"])), "nccl"
    torch.cuda.set_device(device)
deepspeed.init_distributed(dist_backend=backend)
rank, world = dist.get_rank(), dist.get_world_size()

with gzip.open(args.data, "rt") as f:
    table = torch.from_numpy(numpy.loadtxt(f, delimiter=",", dtype=numpy.float32)).to(device)
pixels, digits = table[:, :-1] / 16, table[:, -1].long()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
# This is an optimizer of torch, since DeepSpeed's optimizers would have to be compiled.
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
engine, _, _, _ = deepspeed.initialize(args=args, model=model, optimizer=optimizer)
loss_of = nn.CrossEntropyLoss()

engine.load_checkpoint(args.checkpoints)  # the last complete one, if there is one
say(f"rank {rank} of {world} starts after step {engine.global_steps}")

for step in range(engine.global_steps + 1, args.steps + 1):
    mine = torch.randint(len(table), (engine.train_micro_batch_size_per_gpu(),), device=device)
    loss = loss_of(engine(pixels[mine]), digits[mine])
    engine.backward(loss)
    engine.step()
    ending = torch.tensor(float(is_ending), device=device)
    dist.all_reduce(ending, op=dist.ReduceOp.MAX)
    if ending:
        engine.save_checkpoint(args.checkpoints)  # it returns when all processes have saved
        if rank == 0:
            say(f"saved step {step}")
        say(f"rank {rank} ends after step {step}")
        # With 0, the job would succeed if only some of its pods were about to end.
        sys.exit(128 + signal.SIGTERM)
    if rank == 0:
        say(f"step {step}  loss {loss.item():.4f}")
    time.sleep(args.pause)

dist.destroy_process_group()
