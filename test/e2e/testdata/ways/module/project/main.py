"""A module with subcommands, as a PyTorch Lightning CLI. Its package has data files."""
import importlib.resources
import os
import sys

config = importlib.resources.files("project").joinpath("configs/fit.yaml").read_text().strip()
os.makedirs("lightning_logs/version_0")
print(sys.argv[1], "with", config, "and", sys.argv[2:], "on node", os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", 0)))
