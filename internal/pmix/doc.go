// Package pmix connects a process to a launcher that speaks PMIx: Open MPI's mpirun, prterun, srun --mpi=pmix. Its [Client]
// offers what that of package pmi offers under other launchers: rank and size, a key-value space, a barrier, abort.
//
// PMIx is not a protocol but the interface of a C library: its messages change from version to version, and the library
// negotiates them with the launcher. So this package loads the installed libpmix at run time, and calls eight of its functions. A
// process that PMIx has not started does not load it. With the build tag static, and on other systems than Linux, [FromEnv]
// returns an error that says so.
//
// # Threads
//
// The library has a thread of its own. It is created with all signals blocked, so that the signals of the process go to threads
// of Go. A call occupies a thread until it returns.
package pmix
