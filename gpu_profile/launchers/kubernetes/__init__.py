"""MPIJob, PyTorchJob and TrainJob."""
