package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// The keys of the predefined attributes. They are valid at any time and for all processes, and cannot be set, deleted or
// freed. Get reports false for an attribute that a communicator does not have. MPI-5.0 §9.1.2.
var (
	// TagUB (MPI_TAG_UB) is the greatest tag: 2^31-1 with every transport. On every communicator.
	TagUB = Keyval[int]{predefined: core.KeyTagUB}
	// IO is AnySource if all processes offer language-standard I/O. Otherwise it is the rank of this process if it does,
	// else the lowest rank that does, else ProcNull. Init tests it: standard output is open, and a file can be created,
	// written, positioned and read. On World.
	IO = Keyval[int]{predefined: core.KeyIO}
	// Host is ProcNull: no process is a host process. On World.
	Host = Keyval[int]{predefined: core.KeyHost}
	// WtimeIsGlobal is 1 if Wtime reads the same clock in all processes, or if the clocks are synchronized now as well as
	// messages can measure: no two differ by more than half of the fastest round trip. The value never changes, and is never 0:
	// while clocks may differ by more, there is no attribute (MPI-5.0 §9.1.2). That is so for the first moments of a job on
	// several machines, and when they have not been able to compare their clocks for some time. See Wtime and WtimeError. On
	// every communicator.
	WtimeIsGlobal = Keyval[int]{predefined: core.KeyWtimeIsGlobal}
	// AppNum is the index of this process's program among those on the launcher's command line, which colons separate. On
	// World, if the launcher provides it.
	AppNum = Keyval[int]{predefined: core.KeyAppNum}
	// LastUsedCode is the greatest error class or code in use. AddErrorClass and AddErrorCode increase it. On World.
	LastUsedCode = Keyval[int]{predefined: core.KeyLastUsedCode}
	// UniverseSize is the number of processes for which the launcher has room. On World, if the launcher provides it.
	UniverseSize = Keyval[int]{predefined: core.KeyUniverseSize}
)
