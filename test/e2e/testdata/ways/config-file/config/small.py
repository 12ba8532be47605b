out_dir = "out"
batch_size = 4
