"""Trains a small network to read handwritten digits with DeepSpeed ZeRO stage 1, on all processes of the job together.

It needs nothing but what DeepSpeed's launcher sets for every process that it starts. With a checkpoint it can be stopped at
any time and goes on with as many processes as there are then.
"""
import argparse
import gzip
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn

# This is the torch 1.13 of Debian, and DeepSpeed counts on a later one. Its gloo cannot gather into one tensor, though torch has
# the functions for that: without them, DeepSpeed gathers into a list. And the profiler of the autotuner looks for a function that
# had another name.
if torch.__version__ < "2":
    del dist.all_gather_into_tensor, dist._all_gather_base
    nn.functional.scaled_dot_product_attention = nn.functional._scaled_dot_product_attention

import deepspeed

# The image has no compiler, with which DeepSpeed would build its reductions over shared memory at each start.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=int(os.environ["LOCAL_RANK"]), help="as the launcher may pass it")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--pause", type=float, default=0, help="seconds to wait after each epoch, to have time to watch")
parser.add_argument("--checkpoint", default="", help="file that rank 0 saves to after each epoch and goes on from")
parser.add_argument("--show-env", default="", metavar="NAME", help="print whether this variable is there, and not its value")
parser.add_argument("--data", default="/data/digits.csv.gz", help="1797 images of 8x8 pixels, with the digit in the last column")
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()


def say(text):
    # As one write: the lines of all processes go into one pipe.
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


deepspeed.init_distributed(dist_backend="gloo")
rank, world = dist.get_rank(), dist.get_world_size()
say(f"rank {rank} of {world} on {os.uname().nodename}")
if args.show_env:
    value = os.environ.get(args.show_env)
    say(f"rank {rank} has no {args.show_env}" if value is None else f"rank {rank} has {args.show_env}, of {len(value)} characters")

with gzip.open(args.data, "rt") as f:
    table = torch.from_numpy(numpy.loadtxt(f, delimiter=",", dtype=numpy.float32))
pixels, digits = table[:, :-1] / 16, table[:, -1].long()
# The last fifth is for testing; of the rest, each process trains on its own share.
border = len(table) * 4 // 5
mine = slice(rank, border, world)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

# Only rank 0 has the checkpoint; the others, which may be new, get what it holds. That is the network alone: each process has
# another part of the optimizer's state, and engine.save_checkpoint, which saves those too, needs a volume that all share.
saved = [torch.load(args.checkpoint) if rank == 0 and os.path.exists(args.checkpoint) else None]
dist.broadcast_object_list(saved)
done = 0
if saved[0]:
    done, model_state = saved[0]
    model.load_state_dict(model_state)
    if rank == 0:
        say(f"going on after epoch {done}")

# An optimizer of torch: those that DeepSpeed has for CPUs would have to be compiled.
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
engine, _, _, _ = deepspeed.initialize(args=args, model=model, optimizer=optimizer)
loss_of = nn.CrossEntropyLoss()

size = engine.train_micro_batch_size_per_gpu()
steps = border // world // size
for epoch in range(done + 1, args.epochs + 1):
    total = torch.zeros(1)
    order = torch.randperm(border // world)
    for step in range(steps):
        batch = order[step * size : (step + 1) * size]
        loss = loss_of(engine(pixels[mine][batch]), digits[mine][batch])
        engine.backward(loss)
        engine.step()
        total += loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        with torch.no_grad():
            right = (engine.module(pixels[border:]).argmax(1) == digits[border:]).float().mean()
        mean = total.item() / steps / world
        say(f"epoch {epoch:2d}  loss {mean:.4f}  accuracy {right:.3f}  processes {world}")
        if args.checkpoint:
            # Renamed only when it is whole: this process may be stopped at any time.
            torch.save((epoch, engine.module.state_dict()), args.checkpoint + ".new")
            os.replace(args.checkpoint + ".new", args.checkpoint)
    time.sleep(args.pause)

dist.destroy_process_group()
