# The same program as main.go, over mpi4py: mpirun -n 4 python3 taskfarm.py 1000
import sys

from mpi4py import MPI

RANGE_SIZE = 1000


def hand_out(world, tasks):
    found = 0
    # communication begins
    task, working, status = 0, world.size - 1, MPI.Status()
    while working > 0:
        found += world.recv(source=MPI.ANY_SOURCE, status=status)
        if task < tasks:
            world.send(task, dest=status.source)
        else:
            world.send(None, dest=status.source)
            working -= 1
        task += 1
    return found
    # communication ends


def work(world):
    # communication begins
    found = 0
    while True:
        task = world.sendrecv(found, dest=0, source=0)
        if task is None:
            return
        found = count_primes(task)
    # communication ends


def count_primes(task):
    return sum(is_prime(n) for n in range(task * RANGE_SIZE, (task + 1) * RANGE_SIZE))


def is_prime(n):
    if n < 2:
        return False
    d = 2
    while d * d <= n:
        if n % d == 0:
            return False
        d += 1
    return True


world = MPI.COMM_WORLD
tasks = int(sys.argv[1])
if world.rank > 0:
    work(world)
else:
    print(hand_out(world, tasks), "primes below", tasks * RANGE_SIZE)
