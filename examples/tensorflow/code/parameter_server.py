"""Trains with parameter servers: tf.distribute.ParameterServerStrategy.

The chief schedules the steps on the workers, which get the variables from the parameter servers. A worker can be lost and
come back at any time. Meanwhile, the other workers continue and run its steps.
"""
import os
import time

# Otherwise, TensorFlow waits for a lost worker instead of reporting the loss to the chief.
os.environ["GRPC_FAIL_FAST"] = "use_caller"

import digits
import tensorflow as tf
import tf_keras as keras

digits.parser.add_argument("--enough", default="/tmp/enough", help="file that ends the training after the current epoch if it exists")
args = digits.parser.parse_args()
kind, index = digits.introduce()
cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()

if kind in ("worker", "ps"):
    # Workers and parameter servers serve until the job has ended, and are then deleted.
    tf.distribute.Server(cluster.cluster_spec(), job_name=kind, task_index=index, protocol="grpc").join()

BATCH = 32
strategy = tf.distribute.ParameterServerStrategy(cluster)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
train, test = digits.load(args.data)

with strategy.scope():
    model = digits.network()
    optimizer = keras.optimizers.SGD(0.1)
    mean_loss = keras.metrics.Mean()
    accuracy = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(batches):
    def on_worker(images, answers):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(answers, model(images, training=True)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        mean_loss.update_state(loss)

    strategy.run(on_worker, args=next(batches))


@tf.function
def test_step():
    accuracy.update_state(test[1], model(test[0]))


@tf.function
def worker_data():
    # Each worker shuffles its own copy of the data. A replaced worker starts from the beginning.
    data = lambda _: tf.data.Dataset.from_tensor_slices(train).shuffle(len(train[0])).repeat().batch(BATCH)
    return strategy.distribute_datasets_from_function(data)


batches = iter(coordinator.create_per_worker_dataset(worker_data))
for epoch in range(1, args.epochs + 1):
    for _ in range(len(train[0]) // BATCH):
        coordinator.schedule(train_step, args=(batches,))
    coordinator.schedule(test_step)
    coordinator.join()
    digits.report(epoch, args.epochs, mean_loss.result().numpy(), accuracy.result().numpy())
    mean_loss.reset_state()
    accuracy.reset_state()
    if os.path.exists(args.enough):
        break
    time.sleep(args.pause)

# At a normal exit, TensorFlow would disconnect from each worker, and wait for a lost worker although the training is done.
os._exit(0)
