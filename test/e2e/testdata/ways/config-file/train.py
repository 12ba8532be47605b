"""Configured by a Python file and by options, as nanoGPT. Writes into the folder that it is started in."""
import os
import sys

out_dir, batch_size = "default", 1
for arg in sys.argv[1:]:
    if arg.startswith("--"):
        key, value = arg[2:].split("=")
        globals()[key] = int(value)
    else:
        exec(open(arg).read())
if int(os.environ.get("RANK", 0)) == 0:
    os.makedirs(out_dir, exist_ok=True)
    open(os.path.join(out_dir, "ckpt.pt"), "w").write("weights")
    print("saved", os.listdir(out_dir), "with batch size", batch_size)
