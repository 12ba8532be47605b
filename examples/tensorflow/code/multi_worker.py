"""Trains with tf.distribute.MultiWorkerMirroredStrategy: each worker of the job trains on its share of every batch.

It needs only TF_CONFIG, which the controller sets. When a worker is lost, the others cannot continue, so all replicas restart.
"""
import time

import digits
import tensorflow as tf
import tf_keras as keras

args = digits.parser.parse_args()
kind, index = digits.introduce()
strategy = tf.distribute.MultiWorkerMirroredStrategy()

BATCH = 64  # the total of all workers
train, test = digits.load(args.data)
options = tf.data.Options()
# Every worker has all the data in one file, so TensorFlow divides the data and not the files among the workers.
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
batches = tf.data.Dataset.from_tensor_slices(train).shuffle(len(train[0]), seed=0).batch(BATCH, drop_remainder=True)
tests = tf.data.Dataset.from_tensor_slices(test).batch(len(test[0]))

with strategy.scope():
    model = digits.network()
    model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])


leads = kind == "chief" or index == 0
writer = tf.summary.create_file_writer(args.logdir) if leads and args.logdir else None


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs):
        if leads:
            digits.report(epoch + 1, args.epochs, logs["loss"], logs["val_accuracy"])
        if writer:
            with writer.as_default(step=epoch + 1):
                tf.summary.scalar("loss", logs["loss"])
                tf.summary.scalar("accuracy", logs["val_accuracy"])
            writer.flush()
        time.sleep(args.pause)


model.fit(batches.with_options(options), validation_data=tests.with_options(options), epochs=args.epochs, verbose=0,
          callbacks=[Report()])
