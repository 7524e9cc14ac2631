// Package clustertest tests jobs on several nodes with the programs that start them on clusters: a real Slurm, real servers of
// ssh, and the launchers of MPICH and Open MPI.
//
// It has only tests, and only `make clusters` runs them, because they need root, Debian's packages and a running Slurm:
// .ci/clusters starts it. Where the tests run, nothing that they need may be missing: they fail, and do not skip.
//
// The nodes are this machine. Those of Slurm differ in their names only. Those that are reached by ssh have namespaces of
// their own: host name, network, and file systems where a test hides or replaces files.
package clustertest
