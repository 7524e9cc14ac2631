# The same program as main.go, over mpi4py: mpirun -n 4 python3 gradients.py 8 100000
import sys

import numpy
from mpi4py import MPI


def backward(world, layers, width):
    sums = [None] * layers
    # communication begins
    requests = []
    # communication ends
    for layer in reversed(range(layers)):
        sums[layer] = compute(layer, world.rank, width)
        # communication begins
        requests.append(world.Iallreduce(MPI.IN_PLACE, sums[layer]))
        # Open MPI moves data of immediate collectives only in calls.
        MPI.Request.Testall(requests)
        # communication ends
    # communication begins
    MPI.Request.Waitall(requests)
    # communication ends
    return sums


def compute(layer, rank, width):
    return ((numpy.arange(width) * 31 + layer * 17 + rank * 5) % 101).astype(float)


layers, width = int(sys.argv[1]), int(sys.argv[2])
sums = backward(MPI.COMM_WORLD, layers, width)
if MPI.COMM_WORLD.rank == 0:
    for layer, gradients in enumerate(sums):
        print(f"layer {layer}: {(gradients * (numpy.arange(width) % 7)).sum():.0f}")
