"""Options with underlines, progress bars and warnings on stderr, as the examples of Hugging Face Transformers."""
import argparse
import os
import sys
import warnings

parser = argparse.ArgumentParser()
parser.add_argument("--model_name_or_path")
parser.add_argument("--output_dir")
parser.add_argument("--do_train", action="store_true")
options = parser.parse_args()
warnings.warn("the tokenizer has no pad token")
for step in range(101):
    sys.stderr.write(f"\r{step:3d}%|{'█' * (step // 10):10s}| {step}/100")
os.makedirs(options.output_dir, exist_ok=True)
print(f"\nlocal rank {os.environ['LOCAL_RANK']} of world {os.environ['WORLD_SIZE']} has trained", options.model_name_or_path)
