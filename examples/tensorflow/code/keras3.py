"""Trains with Keras 3 and tf.distribute.MultiWorkerMirroredStrategy.

Model.fit of Keras 3 does not work with this strategy, but the models and optimizers do, in a loop of your own. Worker 0 saves
the model after each epoch. The training can be stopped at any time. It then continues with any number of workers.
"""
import os
import pathlib
import time

import digits
import keras
import tensorflow as tf

digits.parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help="file for the model, on a volume that all workers share")
args = digits.parser.parse_args()
kind, index = digits.introduce()
strategy = tf.distribute.MultiWorkerMirroredStrategy()

BATCH = 64  # the total of all workers
train, test = digits.load(args.data)
options = tf.data.Options()
# Every worker has all the data in one file, so TensorFlow divides the data and not the files among the workers.
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
batches = tf.data.Dataset.from_tensor_slices(train).shuffle(len(train[0]), seed=0).batch(BATCH, drop_remainder=True)
batches = strategy.experimental_distribute_dataset(batches.with_options(options))

with strategy.scope():
    if args.checkpoint.exists():
        model = keras.saving.load_model(args.checkpoint)
    else:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9))  # a saved model contains its optimizer
        model.optimizer.build(model.trainable_variables)
steps = len(train[0]) // BATCH
done = int(model.optimizer.iterations.value.numpy()) // steps
if done and index == 0:
    print(f"continuing after epoch {done}", flush=True)


def train_on_share(images, answers):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(answers, model(images, training=True))
        loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)  # the strategy adds up the shares of the workers
    model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


@tf.function
def train_step(batch):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(train_on_share, args=batch), axis=None)


for epoch in range(done + 1, args.epochs + 1):
    loss = sum(float(train_step(batch)) for batch in batches) / steps
    if index == 0:
        digits.report(epoch, args.epochs, loss, (model(test[0]).numpy().argmax(1) == test[1]).mean())
        # The file is renamed when it is complete, since this process can be stopped at any time.
        saved = args.checkpoint.with_suffix(".new.keras")
        model.save(saved)
        os.replace(saved, args.checkpoint)
    time.sleep(args.pause)
