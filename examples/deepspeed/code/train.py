"""Trains a small network to read handwritten digits with DeepSpeed ZeRO stage 1, with all processes of the job.

It needs only the variables that DeepSpeed's launcher sets for every process that it starts. With a checkpoint, the training can
be stopped at any time. It then continues with any number of processes.
"""
import argparse
import gzip
import json
import os
import sys
import time

import deepspeed
import numpy
import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=int(os.environ["LOCAL_RANK"]), help="local rank, if the launcher passes it as an argument")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--pause", type=float, default=0, help="seconds to wait after each epoch, so that you can watch it")
parser.add_argument("--checkpoint", default="", help="file that rank 0 saves after each epoch and continues from")
parser.add_argument("--show-env", default="", metavar="NAME", help="print whether this variable is set, and its length, but not its value")
parser.add_argument("--data", default="/data/digits.csv.gz", help="file with 1797 images of 8x8 pixels and the digit in the last column")
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()


def say(text):
    # A single write, since the lines of all processes go into one pipe.
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def report(**progress):
    """Reports the progress of the training, if the job has spec.progress."""
    if "T9K_PROGRESS_FILE" in os.environ:
        with open(os.environ["T9K_PROGRESS_FILE"], "a") as f:
            f.write(json.dumps(progress) + "\n")


# If there are GPUs, each process uses one of them.
device, gpu = torch.device("cpu"), ""
if torch.cuda.is_available():
    device = torch.device("cuda", args.local_rank)
    torch.cuda.set_device(device)
    gpu = f" with {torch.cuda.get_device_name()}"
deepspeed.init_distributed(dist_backend="nccl" if gpu else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
say(f"rank {rank} of {world} on {os.uname().nodename}{gpu}")
if args.show_env:
    value = os.environ.get(args.show_env)
    say(f"rank {rank} has no {args.show_env}" if value is None else f"rank {rank} has {args.show_env}, of {len(value)} characters")

with gzip.open(args.data, "rt") as f:
    table = torch.from_numpy(numpy.loadtxt(f, delimiter=",", dtype=numpy.float32)).to(device)
pixels, digits = table[:, :-1] / 16, table[:, -1].long()
# The last fifth of the data is for testing. Each process trains on its own share of the rest.
border = len(table) * 4 // 5
mine = slice(rank, border, world)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)

# Only rank 0 has the checkpoint. It sends the contents to the other processes, which can be new. The checkpoint contains only the
# network, since each process has a different part of the optimizer's state. engine.save_checkpoint also saves these parts, but
# needs a volume that all processes share.
saved = [torch.load(args.checkpoint, map_location="cpu") if rank == 0 and os.path.exists(args.checkpoint) else None]
dist.broadcast_object_list(saved)
done = 0
if saved[0]:
    done, model_state = saved[0]
    model.load_state_dict(model_state)
    if rank == 0:
        say(f"continuing after epoch {done}")

# This is an optimizer of torch, since DeepSpeed's optimizers would have to be compiled.
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
engine, _, _, _ = deepspeed.initialize(args=args, model=model, optimizer=optimizer)
loss_of = nn.CrossEntropyLoss()

size = engine.train_micro_batch_size_per_gpu()
steps = border // world // size
for epoch in range(done + 1, args.epochs + 1):
    total = torch.zeros(1, device=device)
    order = torch.randperm(border // world, device=device)
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
        report(step=epoch, totalSteps=args.epochs, metrics={"loss": mean, "accuracy": right.item()})
        if args.checkpoint:
            # The file is renamed when it is complete, since this process can be stopped at any time.
            torch.save((epoch, engine.module.state_dict()), args.checkpoint + ".new")
            os.replace(args.checkpoint + ".new", args.checkpoint)
    time.sleep(args.pause)

dist.destroy_process_group()
