package launch

import (
	"debug/elf"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// checkLibraries returns an error if a program is linked with Open MPI and the job has several
// ranks. Open MPI connects ranks by PMIx, which ibrun does not offer, so each rank would be a world
// of one. A program that loads the library later is not recognised: see [agent.RankEnv]. The error
// shows a program as the user wrote it, which is in words.
func checkLibraries(programs []program, words []cli.Program, ranks int) error {
	for i, p := range programs {
		if library := openMPI(p); library != "" && ranks > 1 {
			return exitcode.Errorf(exitcode.UsageError, "%s is linked with Open MPI (%s), whose ranks ibrun cannot connect; "+
				"write: mpirun -n %d %[1]s, or link it with MPICH (mpicc.mpich)", words[i].Args[0], library, ranks)
		}
	}
	return nil
}

// openMPI returns the name of the library of Open MPI that the program is linked with, or an empty string.
func openMPI(p program) string {
	if p.isGo {
		return ""
	}
	f, err := elf.Open(p.path)
	if err != nil { // a script, for instance
		return ""
	}
	defer f.Close() // it was only read
	libraries, err := f.DynString(elf.DT_NEEDED)
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(libraries, isOpenMPI)
	if i < 0 {
		return ""
	}
	return libraries[i]
}

// isOpenMPI reports whether a library is Open MPI's, version 2 or later. MPICH and its relatives use the names libmpich.so.12,
// libmpi.so.12 and libmpifort.so.12.
func isOpenMPI(library string) bool {
	return library == "libmpi.so.20" || library == "libmpi.so.40" || slices.ContainsFunc(
		[]string{"libmpi_mpifh.so.", "libmpi_usempif08.so.", "libmpi_usempi.so.", "libmpi_cxx.so.", "libmpi_ibm.so."},
		func(prefix string) bool { return strings.HasPrefix(library, prefix) })
}
