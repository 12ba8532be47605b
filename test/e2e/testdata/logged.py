"""Runs a program that prints to a file on the volume of the checkpoints, which outlives the pods. If $SAVE_SECONDS is set, torch.save
takes as many seconds longer."""
import os
import runpy
import sys
import time

if "SAVE_SECONDS" in os.environ:
    import torch

    save = torch.save

    def slow_save(value, file, **options):
        if isinstance(file, str):  # and no buffer for a broadcast
            time.sleep(float(os.environ["SAVE_SECONDS"]))
        save(value, file, **options)

    torch.save = slow_save
sys.stdout = open("/checkpoints/log", "a", buffering=1)
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])  # the modules beside the program
runpy.run_path(sys.argv[0], run_name="__main__")
