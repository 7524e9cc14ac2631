package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// MaxProcessorName is the maximum length of the result of ProcessorName in bytes. C's constant also counts the final
// NUL. MPI-5.0 §9.1.2.
const MaxProcessorName = core.MaxProcessorName

// Version and Subversion are those of the standard that this package follows. MPI-5.0 §9.1.1.
const (
	Version    = core.Version
	Subversion = core.Subversion
)

// ProcessorName returns the name of the machine on which the process runs now: the host name and 8 hexadecimal digits
// of the kernel's boot id. It is the same for all processes of a machine, even in containers with their own host
// names, and differs between machines. The host name is the one that the first of these processes had in Init, also if
// one of them changes its own. The name is at most MaxProcessorName bytes long (73 on Linux). Other systems
// return errors.ErrUnsupported. The name by which ibrun started the process on this host, such as one of --hosts, is in the
// environment variable PMI_HOSTNAME. MPI-5.0 §9.1.2.
func (p *Process) ProcessorName() (string, error) { return public2(p.core().ProcessorName()) }

// LibraryVersion returns the name of this package, and its version if the program was built from a released one.
// MPI-5.0 §9.1.1.
func LibraryVersion() string { return core.LibraryVersion() }
