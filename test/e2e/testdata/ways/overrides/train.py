"""Overrides of a configuration, as with Hydra: each run has a folder of its own in outputs."""
import os
import sys
import time

overrides = dict(word.lstrip("+").split("=", 1) for word in sys.argv[1:])
folder = time.strftime("outputs/%Y-%m-%d/%H-%M-%S")
os.makedirs(folder + "/.hydra")
os.chdir(folder)
print("overrides", sorted(overrides.items()))
