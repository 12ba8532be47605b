"""A module in a package and overrides as one argument, as the TensorFlow Model Garden."""
import argparse
import json
import os

parser = argparse.ArgumentParser()
parser.add_argument("--experiment")
parser.add_argument("--params_override")
parser.add_argument("--model_dir")
options = parser.parse_args()
os.makedirs(options.model_dir, exist_ok=True)
task = json.loads(os.environ["TF_CONFIG"])["task"]
print(task["type"], task["index"], "trains", options.experiment, "with", options.params_override)
