"""Options of DeepSpeed and a configuration beside the program, as DeepSpeedExamples."""
import argparse
import json

import deepspeed

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser = deepspeed.add_config_arguments(parser)
options = parser.parse_args()
deepspeed.init_distributed(dist_backend="gloo")
print("rank", deepspeed.comm.get_rank(), "has", json.load(open(options.deepspeed_config))["optimizer"]["type"], flush=True)
