"""Trains a small network to read handwritten digits, with all processes of the job.

It needs only the variables that torch.distributed's env:// reads: MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK, and with GPUs
also LOCAL_RANK. The controller sets them for every replica, and torchrun for every process that it starts. With a checkpoint, the
training can be stopped at any time. It then continues with any number of processes.
"""
import argparse
import gzip
import json
import os
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--pause", type=float, default=0, help="seconds to wait after each epoch, so that you can watch it")
parser.add_argument("--checkpoint", default="", help="file that rank 0 saves after each epoch and continues from")
parser.add_argument("--logdir", default="", help="folder to which rank 0 writes event files for TensorBoard")
parser.add_argument("--data", default="/data/digits.csv.gz", help="file with 1797 images of 8x8 pixels and the digit in the last column")
args = parser.parse_args()


def report(**progress):
    """Reports the progress of the training, if the job has spec.progress."""
    if "T9K_PROGRESS_FILE" in os.environ:
        with open(os.environ["T9K_PROGRESS_FILE"], "a") as f:
            f.write(json.dumps(progress) + "\n")


# If there are GPUs, each process uses one of them.
device, gpu = torch.device("cpu"), ""
if torch.cuda.is_available():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    gpu = f" with {torch.cuda.get_device_name()}"
dist.init_process_group("nccl" if gpu else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
print(f"rank {rank} of {world} on {os.uname().nodename}{gpu}", flush=True)

with gzip.open(args.data, "rt") as f:
    table = torch.from_numpy(numpy.loadtxt(f, delimiter=",", dtype=numpy.float32)).to(device)
pixels, digits = table[:, :-1] / 16, table[:, -1].long()
# The last fifth of the data is for testing. Each process trains on its own share of the rest.
border = len(table) * 4 // 5
mine = slice(rank, border, world)

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

writer = None
if rank == 0 and args.logdir:
    from torch.utils.tensorboard import SummaryWriter

    # Hides events that an earlier attempt wrote after the checkpoint.
    writer = SummaryWriter(args.logdir, purge_step=done + 1)

steps = border // world // 32
for epoch in range(done + 1, args.epochs + 1):
    total = torch.zeros(1, device=device)
    order = torch.randperm(border // world, device=device)
    for step in range(steps):
        batch = order[step * 32 : (step + 1) * 32]
        optimizer.zero_grad()
        loss = loss_of(model(pixels[mine][batch]), digits[mine][batch])
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        with torch.no_grad():
            right = (model.module(pixels[border:]).argmax(1) == digits[border:]).float().mean()
        mean = total.item() / steps / world
        print(f"epoch {epoch:2d}  loss {mean:.4f}  accuracy {right:.3f}  processes {world}", flush=True)
        report(step=epoch, totalSteps=args.epochs, metrics={"loss": mean, "accuracy": right.item()})
        if writer:
            writer.add_scalar("loss", mean, epoch)
            writer.add_scalar("accuracy", right, epoch)
            writer.flush()
        if args.checkpoint:
            # The file is renamed when it is complete, since this process can be stopped at any time.
            torch.save((epoch, model.state_dict(), optimizer.state_dict()), args.checkpoint + ".new")
            os.replace(args.checkpoint + ".new", args.checkpoint)
    time.sleep(args.pause)

if writer:
    writer.close()
dist.destroy_process_group()
