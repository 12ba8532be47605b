"""Learns from the environment whether it is one of several processes, as accelerate."""
import os

import torch.distributed as dist

if int(os.environ.get("LOCAL_RANK", -1)) != -1:
    dist.init_process_group("gloo")
    print("process", dist.get_rank(), "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"])
else:
    print("no distributed training")
