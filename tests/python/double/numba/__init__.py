"""A double of the parts of numba-cuda that weir.numba is written against, in the
form that it has with NVIDIA's bindings: a CUdeviceptr and a CUdevice are
objects with an int in them and no more, host addresses are ints, and there is
no module drvapi. Calls go to the driver under test."""
