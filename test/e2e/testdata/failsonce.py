"""One process of the second replica fails when torchrun has started it first. After a restart by torchrun, all processes complete."""
import os

import torch.distributed as dist

dist.init_process_group("gloo")
process, start = os.environ["LOCAL_RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
dist.barrier()
if os.uname().nodename.endswith("worker-1") and process == "1" and start == "0":
    print(f"process {process} fails at start {start}", flush=True)
    os._exit(3)
dist.barrier()
print(f"process {process} completes at start {start}", flush=True)
dist.destroy_process_group()
