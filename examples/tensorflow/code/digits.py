"""The common code of the examples: the task of this process, the handwritten digits, and the network that learns to read them.

The network uses tf_keras, which is Keras 2. Model.fit of Keras 3, the version of `tf.keras`, trains only on a single machine. keras3.py
shows how to train with Keras 3 on several.
"""
import argparse
import gzip
import json
import os

import numpy
import tf_keras as keras

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--pause", type=float, default=0, help="seconds to wait after each epoch, so that you can watch it")
parser.add_argument("--logdir", default="", help="folder to which the leader writes event files for TensorBoard")
parser.add_argument("--data", default="/data/digits.csv.gz", help="file with 1797 images of 8x8 pixels and the digit in the last column")


def introduce():
    """Prints and returns the type and the index of this process from TF_CONFIG. A job with a single replica has no TF_CONFIG."""
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "worker", "index": 0})
    # Evaluators are not in the cluster.
    replicas = sum(len(addresses) for addresses in config.get("cluster", {"worker": [""]}).values())
    print(f"{task['type']} {task['index']}, replicas in the cluster {replicas}, on {os.uname().nodename}", flush=True)
    return task["type"], task["index"]


def load(path):
    """Returns the training data and the test data, each as images and digits. The last fifth of the data is for testing."""
    with gzip.open(path, "rt") as f:
        table = numpy.loadtxt(f, delimiter=",", dtype=numpy.float32)
    images, digits = table[:, :-1] / 16, table[:, -1].astype(numpy.int64)
    border = len(table) * 4 // 5
    return (images[:border], digits[:border]), (images[border:], digits[border:])


def network():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])


def report(epoch, epochs, loss, accuracy):
    """Prints the progress of the training. It also reports the progress to the job, if the job has spec.progress."""
    print(f"epoch {epoch:2d}  loss {loss:.4f}  accuracy {accuracy:.3f}", flush=True)
    if "T9K_PROGRESS_FILE" in os.environ:
        progress = {"step": epoch, "totalSteps": epochs, "metrics": {"loss": float(loss), "accuracy": float(accuracy)}}
        with open(os.environ["T9K_PROGRESS_FILE"], "a") as f:
            f.write(json.dumps(progress) + "\n")
