# Lets a torch before 2.0 take PET_LOCAL_ADDR as the name of its host, as later ones do by themselves. Python runs this file
# when it starts, if the folder of it is in PYTHONPATH.
import os
import socket

name = os.environ.get("PET_LOCAL_ADDR")
if name:
    socket.getfqdn = lambda *_: name
