"""Trains a small network with FSDP2: each process keeps a shard of the parameters and of the optimizer's state.

The processes save a distributed checkpoint after each epoch, each its own shard, in a folder that all of them can write. When a
pod of the job is about to end, they save one after the current step: orderly.py explains how they agree on it. The training can
be stopped at any time. It then continues from the last complete checkpoint, with any number of processes.
"""
import argparse
import gzip
import pathlib
import shutil
import signal
import sys
import time

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--pause", type=float, default=0, help="seconds to wait after each epoch, so that you can watch it")
parser.add_argument("--checkpoints", type=pathlib.Path, required=True, help="folder for checkpoints, on a volume that all processes share")
parser.add_argument("--data", default="/data/digits.csv.gz", help="file with 1797 images of 8x8 pixels and the digit in the last column")
args = parser.parse_args()

# The handler only sets a flag, since the signal can come at any time, also in the middle of a step.
is_ending = False


def end(*_):
    global is_ending
    is_ending = True


signal.signal(signal.SIGTERM, end)

# FSDP2 records events in the streams of the accelerator. On CPUs, torch 2.6 has no such events, and needs none.
if not hasattr(torch.cpu.Stream, "record_event"):
    torch.cpu.Stream.record_event = torch.cpu.Stream.wait_event = lambda *_: None

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

with gzip.open(args.data, "rt") as f:
    table = torch.from_numpy(numpy.loadtxt(f, delimiter=",", dtype=numpy.float32))
pixels, digits = table[:, :-1] / 16, table[:, -1].long()
border = len(table) * 4 // 5  # the last fifth of the data is for testing

torch.manual_seed(0)  # all processes begin with the same parameters
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
mesh = dist.init_device_mesh("cpu", (world,))
# On CPUs, torch 2.6 cannot gather the parameters again for the backward pass. On GPUs, leave reshard_after_forward out.
for layer in [*model.children(), model]:
    fully_shard(layer, mesh=mesh, reshard_after_forward=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss_of = nn.CrossEntropyLoss()

# FSDP2 averages the gradients of the processes. With gloo, some versions of torch add them up instead: pytorch#162338.
sums = torch.empty(1)
dist.reduce_scatter_tensor(sums, torch.ones(world), op=dist.ReduceOp.AVG)
gradient_scale = 1 / sums.item()

# A step trains on the same images with any number of processes, and each process on its share of them.
size = 48
steps = border // size  # of an epoch

# The name of a checkpoint is its step. Its metadata is written last.
done = max((int(path.parent.name) for path in args.checkpoints.glob("*/.metadata")), default=0)
latest = [done]
dist.broadcast_object_list(latest)
done = latest[0]
if done:
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    checkpoints.load(state, checkpoint_id=args.checkpoints / str(done))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    if rank == 0:
        print(f"continuing after epoch {done // steps}", flush=True)
print(f"rank {rank} of {world} starts after step {done}", flush=True)

total, count = torch.zeros(1), 0
for step in range(done + 1, args.epochs * steps + 1):
    epoch, index = (step - 1) // steps + 1, (step - 1) % steps
    order = torch.randperm(border, generator=torch.Generator().manual_seed(epoch))
    mine = order[index * size : (index + 1) * size][rank::world]
    optimizer.zero_grad()
    loss = loss_of(model(pixels[mine]), digits[mine])
    (loss * gradient_scale).backward()
    optimizer.step()
    total, count = total + loss.detach(), count + 1
    ending = torch.tensor(float(is_ending))
    dist.all_reduce(ending, op=dist.ReduceOp.MAX)
    ends_epoch = step == epoch * steps
    if ends_epoch:
        dist.all_reduce(total)
        with torch.no_grad():
            right = (model(pixels[border:]).argmax(1) == digits[border:]).float().mean()
        if rank == 0:
            mean = total.item() / count / world
            print(f"epoch {epoch:2d}  loss {mean:.4f}  accuracy {right:.3f}  processes {world}", flush=True)
        total, count = torch.zeros(1), 0
    if ending or ends_epoch:
        model_state, optimizer_state = get_state_dict(model, optimizer)
        checkpoints.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=args.checkpoints / str(step))
        if rank == 0:
            for old in args.checkpoints.iterdir():
                if old.name.isdigit() and int(old.name) < step:
                    shutil.rmtree(old)
    if ending:
        if rank == 0:
            print(f"saved step {step}", flush=True)
        dist.barrier()  # the end of a process would end the others before rank 0 is done
        print(f"rank {rank} ends after step {step}", flush=True)
        # With 0, the job would succeed if only some of its pods were about to end.
        sys.exit(128 + signal.SIGTERM)
    if ends_epoch:
        time.sleep(args.pause)

dist.destroy_process_group()
