package mpi

// Abort ends all processes of the job with an exit code from 1 to 255. The system keeps the last 8 bits of other
// codes, and 0 becomes 1. Abort does not return under a launcher or in a world of one process. In a test with mpitest
// it ends that world and returns an error. MPI-5.0 §9.4.
func (p *Process) Abort(code int) error { return public(p.core().Abort(code)) }
