// Ibrun starts the ranks of a parallel program on this machine, connects them, and leaves nothing behind.
//
//	ibrun -n 4 ./examples/pi
//
// builds the Go program in that directory and starts four ranks of it. Any other program can be started as well:
// ibrun offers PMI-1, which MPICH's programs speak too, and sets the variables by which programs of Open MPI and
// torchrun know their rank. What the flags mean is told by
//
//	ibrun help
package main
