"""Finds its files by its own path, as YOLOv5, and writes beside them."""
import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[0]
parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, default=ROOT / "data/coco.yaml")
parser.add_argument("--project", type=Path, default=ROOT / "runs/train")
options = parser.parse_args()
(options.project / "exp").mkdir(parents=True, exist_ok=True)
local_rank = int(os.getenv("LOCAL_RANK", -1))
# One string, so that the ranks' lines are not mixed.
print(f"results in {os.path.relpath(options.project / 'exp', ROOT)} of {options.data.read_text().strip()} rank {local_rank}")
