"""Trains with Keras 3 and MultiWorkerMirroredStrategy, and saves the model when a pod of the job is about to end.

A pod that is about to end gets SIGTERM, and has its grace period to save its work: at a pause, a drain, a preemption or a deadline.
The workers get the signal at different times, and without a pause not all of them get it. So after each step, they exchange whether
one of them has got the signal. If so, worker 0 saves the model, and all of them end.

tf.distribute.experimental.PreemptionCheckpointHandler does the same, but not on Google Cloud. There, it does not wait for SIGTERM.
"""
import os
import pathlib
import signal
import sys
import time

import digits
import keras
import tensorflow as tf

digits.parser.add_argument("--steps", type=int, default=100)
digits.parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help="file for the model, on a volume that all workers share")
args = digits.parser.parse_args()

kind, rank = digits.introduce()
strategy = tf.distribute.MultiWorkerMirroredStrategy()

BATCH = 64  # the total of all workers
train, _ = digits.load(args.data)
options = tf.data.Options()
# Every worker has all the data in one file, so TensorFlow divides the data and not the files among the workers.
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
batches = tf.data.Dataset.from_tensor_slices(train).shuffle(len(train[0])).batch(BATCH, drop_remainder=True).repeat()
batches = iter(strategy.experimental_distribute_dataset(batches.with_options(options)))

with strategy.scope():
    if args.checkpoint.exists():
        model = keras.saving.load_model(args.checkpoint)
    else:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9))  # a saved model contains its optimizer
        model.optimizer.build(model.trainable_variables)
# The strategy has set a handler that would ignore the signal. This one only sets a flag, since the signal can come at any time, also
# in the middle of a step.
is_ending = False


def end(*_):
    global is_ending
    is_ending = True


signal.signal(signal.SIGTERM, end)

done = int(model.optimizer.iterations.value.numpy())
print(f"rank {rank} of {strategy.num_replicas_in_sync} starts after step {done}", flush=True)


def train_on_share(images, answers):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(answers, model(images, training=True))
        loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)  # the strategy adds up the shares of the workers
    model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


@tf.function
def add_up(function, *args):
    """Runs the function on all workers, and returns the sum of the results."""
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(function, args=args), axis=None)


for step in range(done + 1, args.steps + 1):
    loss = add_up(train_on_share, *next(batches))
    if add_up(tf.identity, tf.constant(float(is_ending))):
        if rank == 0:
            # The file is renamed when it is complete, since the grace period can be too short.
            saved = args.checkpoint.with_suffix(".new.keras")
            model.save(saved)
            os.replace(saved, args.checkpoint)
            print(f"saved step {step}", flush=True)
        add_up(tf.identity, tf.constant(0.0))  # the others wait, since the end of a worker can end worker 0
        print(f"rank {rank} ends after step {step}", flush=True)
        # With 0, the job would succeed if only some of its pods were about to end.
        sys.exit(128 + signal.SIGTERM)
    if rank == 0:
        print(f"step {step}  loss {loss:.4f}", flush=True)
    time.sleep(args.pause)
