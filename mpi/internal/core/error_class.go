package core

import "fmt"

// Class is an error class.
type Class int32

// The error classes in use, with the numbers of the MPI-5.0 ABI (§20.3). ErrProcFailed has no
// number there yet. Package mpi says what each class means. The constants have no type, because
// a front end has its own. Classes that the user adds are in added_codes.go.
const (
	ErrBuffer     = 1
	ErrCount      = 2
	ErrType       = 3
	ErrTag        = 4
	ErrComm       = 5
	ErrRank       = 6
	ErrRequest    = 7
	ErrRoot       = 8
	ErrGroup      = 9
	ErrOp         = 10
	ErrTopology   = 11
	ErrDims       = 12
	ErrArg        = 13
	ErrTruncate   = 15
	ErrOther      = 16
	ErrPending    = 18
	ErrInStatus   = 19
	ErrInfoKey    = 31
	ErrInfoNoKey  = 32
	ErrInfoValue  = 33
	ErrInfo       = 34
	ErrKeyval     = 36
	ErrNoMem      = 39
	ErrSession    = 60
	ErrProcFailed = 101
)

// classText has the texts of these classes.
var classText = map[Class]string{
	ErrBuffer: "invalid buffer", ErrCount: "invalid count",
	ErrType: "invalid element type", ErrTag: "invalid tag", ErrComm: "invalid communicator",
	ErrRank: "invalid rank", ErrRequest: "invalid request", ErrRoot: "invalid root", ErrGroup: "invalid group",
	ErrOp: "invalid operation", ErrTopology: "invalid topology", ErrDims: "invalid dimensions",
	ErrArg: "invalid argument", ErrOther: "error",
	ErrTruncate: "message truncated", ErrInStatus: "error in status",
	ErrPending: "request still in progress",
	ErrInfoKey: "invalid info key", ErrInfoNoKey: "no such info key", ErrInfoValue: "invalid info value",
	ErrInfo: "invalid info", ErrKeyval: "invalid key of an attribute", ErrNoMem: "no memory",
	ErrSession: "invalid session", ErrProcFailed: "process failed",
}

// Error names the class.
func (c Class) Error() string {
	if s, ok := classText[c]; ok {
		return s
	}
	return fmt.Sprintf("error class %d", int32(c))
}
