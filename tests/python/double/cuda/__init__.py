"""A test double: as much of cuda.core as weir.cuda_core uses, in our own
words."""
