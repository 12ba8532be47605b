"""Starts a process for each device itself, as detectron2. The rest of the command line is a list of keys and values."""
import argparse
import os

import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank, options):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29600", rank=rank, world_size=options.num_gpus)
    dist.barrier()
    if rank == 0:
        os.makedirs("./output", exist_ok=True)
        print("trains with", dist.get_world_size(), "processes and", dict(zip(options.opts[::2], options.opts[1::2])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-gpus", type=int)
    parser.add_argument("opts", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    mp.spawn(main, args=(options,), nprocs=options.num_gpus)
