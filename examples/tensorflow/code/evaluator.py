"""Trains on the chief, which saves a checkpoint after each epoch, and evaluates each checkpoint on the evaluator.

The two processes share only the folder of the checkpoints. The training can be stopped at any time. It then continues from the
last checkpoint.
"""
import time

import digits
import tensorflow as tf
import tf_keras as keras

digits.parser.add_argument("--checkpoints", default="/checkpoints", help="folder that the chief and the evaluator share")
args = digits.parser.parse_args()
kind, index = digits.introduce()
train, test = digits.load(args.data)

model = digits.network()
model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.optimizer.build(model.trainable_variables)
done = tf.Variable(0, dtype=tf.int64, name="done")
checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer, done=done)

if kind == "evaluator":
    for path in tf.train.checkpoints_iterator(args.checkpoints):
        checkpoint.restore(path).expect_partial()
        loss, accuracy = model.evaluate(*test, batch_size=len(test[0]), verbose=0)
        digits.report(int(done), args.epochs, loss, accuracy)
        if done >= args.epochs:
            break
else:
    manager = tf.train.CheckpointManager(checkpoint, args.checkpoints, max_to_keep=5)
    manager.restore_or_initialize()
    while done < args.epochs:
        model.fit(*train, batch_size=32, verbose=0)
        done.assign_add(1)
        manager.save(checkpoint_number=done)
        print(f"saved epoch {int(done):2d}", flush=True)
        time.sleep(args.pause)
