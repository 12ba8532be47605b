"""Trains a small transformer to read handwritten digits with the Trainer of Hugging Face.

The model begins with random parameters, so nothing is downloaded. All options of TrainingArguments can be given, for example
--deepspeed with a configuration file. When a pod of the job is about to end, the processes save a checkpoint after the current
step. The training can be stopped at any time. It then continues from its last checkpoint.
"""
import dataclasses
import gzip
import os
import pathlib
import signal
import sys
import time

import numpy
from transformers import BertConfig, BertForSequenceClassification, HfArgumentParser, Trainer, TrainerCallback, TrainingArguments


@dataclasses.dataclass
class Pause(TrainerCallback):
    pause: float = dataclasses.field(default=0, metadata={"help": "seconds to wait after each epoch, so that you can watch it"})

    def on_epoch_end(self, *_, **__):
        time.sleep(self.pause)


class End(TrainerCallback):
    """Saves a checkpoint when a pod of the job is about to end, all processes after the same step: see orderly.py.

    With the option enable_jit_checkpoint, each process would save 3 s after it has got SIGTERM, and so after another step than the
    others. This callback does not need the option.
    """

    def __init__(self, accelerator):
        self.accelerator, self.is_ending, self.all_end = accelerator, False, False
        signal.signal(signal.SIGTERM, self.end)

    def end(self, *_):
        self.is_ending = True

    def on_train_begin(self, args, state, *_, **__):
        sys.stdout.write(f"rank {args.process_index} of {args.world_size} starts after step {state.global_step}\n")

    def on_step_end(self, args, state, control, **_):
        if self.is_ending:
            self.accelerator.set_trigger()
        self.all_end = self.accelerator.check_trigger()  # whether one of the processes has set it
        if self.all_end:
            control.should_save, control.should_evaluate = True, False

    def on_save(self, args, state, *_, **__):
        if not self.all_end:
            return
        if args.process_index == 0:
            print(f"saved step {state.global_step}", flush=True)
        self.accelerator.wait_for_everyone()  # the end of a process would end the others before they have saved
        sys.stdout.write(f"rank {args.process_index} ends after step {state.global_step}\n")
        # With 0, the job would succeed if only some of its pods were about to end.
        sys.exit(128 + signal.SIGTERM)


parser = HfArgumentParser((TrainingArguments, Pause))
# The loss of this model is a mean over images, and all of its parameters are used.
parser.set_defaults(average_tokens_across_devices=False, ddp_find_unused_parameters=False)
args, pause = parser.parse_args_into_dataclasses()
sys.stdout.write(f"rank {args.process_index} of {args.world_size} on {os.uname().nodename}\n")

with gzip.open("/data/digits.csv.gz", "rt") as f:
    table = numpy.loadtxt(f, delimiter=",", dtype=numpy.int64)
# A model for texts reads an image as 8 tokens, one for each row: the bits of a token are the dark pixels.
tokens = numpy.packbits(table[:, :-1].reshape(-1, 8) > 7).astype(numpy.int64).reshape(-1, 8)
examples = [{"input_ids": row, "labels": digit} for row, digit in zip(tokens, table[:, -1])]
border = len(examples) * 4 // 5  # the last fifth of the data is for testing


def accuracy(prediction):
    return {"accuracy": (prediction.predictions.argmax(-1) == prediction.label_ids).mean().item()}


config = BertConfig(
    vocab_size=256, max_position_embeddings=8, num_labels=10,
    hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
)
trainer = Trainer(
    model=BertForSequenceClassification(config),
    args=args,
    train_dataset=examples[:border],
    eval_dataset=examples[border:],
    compute_metrics=accuracy,
    callbacks=[pause],
)
trainer.add_callback(End(trainer.accelerator))
# The state is the last file of a checkpoint. A checkpoint without it was interrupted.
states = pathlib.Path(args.output_dir).glob("checkpoint-*/trainer_state.json")
last = max((state.parent for state in states), key=lambda folder: int(folder.name.split("-")[1]), default=None)
if last and args.process_index == 0:
    print(f"continuing from {last}", flush=True)
trainer.train(resume_from_checkpoint=last and str(last))
if trainer.is_deepspeed_enabled and args.process_index == 0:
    print(f"trained with ZeRO stage {trainer.deepspeed.zero_optimization_stage()}", flush=True)
trainer.accelerator.end_training()
