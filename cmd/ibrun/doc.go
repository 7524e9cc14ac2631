// Ibrun starts the ranks of a parallel program, connects them, and ends all of their processes when the job ends.
//
//	ibrun -n 4 ./examples/pi
//
// builds the Go program in that directory and starts four ranks of it. It can start any other program as well: it offers
// PMI-1, which MPICH's programs use too, and sets the variables from which programs of Open MPI and torchrun read their
// rank. This command describes the flags:
//
//	ibrun help
package main
