// Package foreign translates the flags of other launchers: mpirun of Open MPI, mpiexec of MPICH and Intel MPI, srun of Slurm,
// torchrun, and TACC's ibrun. It translates a command line with such flags to ibrun's own.
//
//	c, err := foreign.Translate([]string{"--ntasks=4", "--chdir", "/tmp", "./app"}, native)
//	fmt.Println(c.Args()) // [-n=4 --wdir=/tmp ./app]
//
// One table maps each flag to its meaning here: flags of ibrun; nothing, because ibrun does so anyway; or an error that
// says what to write instead. No flag is ignored in silence. The same table writes docs/migrating.md.
//
// A flag with several meanings is translated if its value or the other flags decide: next to --ntasks, which only srun has,
// -c is srun's. Otherwise it is an error with all meanings.
//
// Files that list several programs (--app, -configfile, srun --multi-prog) are read and become programs separated by ":".
package foreign
