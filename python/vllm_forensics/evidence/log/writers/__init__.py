"""What each kind of writer says of a death: runtimes, kernels, servers, launchers."""
