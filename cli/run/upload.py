"""Receives the code of a training as a tar archive on stdin, and extracts it into the folder $CODE.

The argument is the SHA-256 checksum of the archive. The folder appears only if the archive is complete.
"""
import hashlib
import os
import shutil
import sys
import tarfile


class Stream:
    def __init__(self, file):
        self.file, self.hash = file, hashlib.sha256()

    def read(self, size):
        data = self.file.read(size)
        self.hash.update(data)
        return data


def read_all(stream):
    while stream.read(1 << 20):
        pass


target = os.environ["CODE"]
partial = target + ".partial"
stream = Stream(sys.stdin.buffer)
shutil.rmtree(partial, ignore_errors=True)
try:
    os.makedirs(partial)
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(partial)
    read_all(stream)
    if stream.hash.hexdigest() != sys.argv[1]:
        sys.exit("the checksum of the received archive differs")
    shutil.rmtree(target, ignore_errors=True)
    os.rename(partial, target)
except Exception as error:
    print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    # containerd reports the end of a command only after all of its input was read.
    read_all(stream)
    sys.exit(1)
finally:
    shutil.rmtree(partial, ignore_errors=True)
