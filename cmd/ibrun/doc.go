// Ibrun starts the ranks of a parallel program, connects them, and ends all of their processes when the job ends.
//
//	ibrun -n 4 ./examples/pi
//
// builds the Go program in that directory and starts four ranks of it. It can start any other program as well: it offers
// PMI-1, which MPICH's programs use too, and sets the variables from which programs of Open MPI and torchrun read their
// rank. This command describes the flags:
//
//	ibrun help
//
// # How a job ends
//
// The same happens on every way to end a job: the ranks and all of their descendants get a signal, have some time, and those
// that still run get SIGKILL.
//
//	what ends the job                         signal to the ranks   time
//	SIGINT, SIGTERM or SIGHUP to an ibrun     the same              --grace (10 s)
//	--timeout                                 SIGTERM               --grace
//	a rank or a node has failed               SIGTERM               --failure-grace (0.5 s)
//	all ranks have exited                     SIGTERM, to processes that they have left behind; --failure-grace
//	a second signal to the same ibrun         none                  none
//
// A scheduler that kills a job some time after its signal should give ibrun a shorter --grace, for instance by IBRUN_GRACE.
// SIGTERM and SIGHUP within a second of the first signal are one request with it (SIGINT: within 50 ms), since timeout(1),
// systemd and a terminal that is closed send several. In a Slurm job SIGTERM is never a second request: Slurm sends it several
// times, and kills the job itself. Signals to several nodes of a job are one request as well; node 0's --grace counts. Stopped
// ranks and a stopped agent are continued.
//
// ibrun acts on signals, failures and --timeout also while its output is not read. Once the ranks have exited, remaining
// output is forwarded for half a second after a signal or --timeout, for ten seconds after a failure, and without limit after
// success. What was not forwarded is named by the last lines of ibrun.
//
// # Exit codes
//
//	0       all ranks have succeeded
//	N       the code of the first rank that failed; 128+N if signal N killed it
//	128+N   signal N was sent to ibrun, and ranks had to be killed or output was lost
//	1       the ranks could not be connected, a rank violated a protocol, or a node is lost
//	2       usage error
//	124     --timeout
//	126     the program is not executable
//	127     the program was not found
package main
