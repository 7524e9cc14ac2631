// Ibrun starts the ranks of a parallel program on this machine, connects them, and leaves no process behind.
//
//	ibrun -n 4 ./examples/pi
//
// builds the Go program in that directory and starts four ranks of it. Any other program can be started as well: ibrun serves
// PMI-1, which programs of MPICH use too, and sets the variables by which programs of Open MPI and torchrun know their rank. All
// flags are listed by
//
//	ibrun help
package main
