# The same program as main.go, over mpi4py: mpirun -n 4 python3 halo.py 500 500 100
import sys

import numpy
from mpi4py import MPI

rows, cols, steps = map(int, sys.argv[1:])
plate = numpy.zeros((rows + 2, cols + 2))
plate[1:-1, 1:-1] = 1

# communication begins
dims = MPI.Compute_dims(MPI.COMM_WORLD.size, 2)
grid = MPI.COMM_WORLD.Create_cart(dims, reorder=True)
row = MPI.DOUBLE.Create_vector(1, cols + 2, cols + 2).Commit()
col = MPI.DOUBLE.Create_vector(rows + 2, 1, cols + 2).Commit()
faces, strides = (row, col), (cols + 2, 1)


def face(dim, i):
    return [plate.ravel()[i * strides[dim]:], 1, faces[dim]]


def exchange():
    for dim, last in enumerate((rows, cols)):
        low, high = grid.Shift(dim, 1)
        grid.Sendrecv(face(dim, last), high, recvbuf=face(dim, 0), source=low)
        grid.Sendrecv(face(dim, 1), low, recvbuf=face(dim, last + 1), source=high)
# communication ends


for _ in range(steps):
    exchange()
    plate[1:-1, 1:-1] = (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]) / 4
# communication begins
heat = grid.allreduce(plate[1:-1, 1:-1].sum())
# communication ends
if grid.rank == 0:
    print(f"heat {heat:.6f} on {dims[0]} x {dims[1]} ranks")
# communication begins
grid.Free()
# communication ends
