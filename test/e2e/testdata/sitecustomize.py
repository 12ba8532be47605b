# Makes torch before 2.0 use PET_LOCAL_ADDR as the name of its host, as later versions do. Python runs this file when it starts
# if PYTHONPATH contains the folder of the file.
import os
import socket

name = os.environ.get("PET_LOCAL_ADDR")
if name:
    socket.getfqdn = lambda *_: name
