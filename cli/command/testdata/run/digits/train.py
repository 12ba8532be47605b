from models.net import network

print(network())
