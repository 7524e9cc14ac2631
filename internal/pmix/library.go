package pmix

import (
	"errors"
	"fmt"

	abi "github.com/ibrun/ibrun/internal/abi/pmix"
	"github.com/ibrun/ibrun/internal/dlopen"
)

// ErrNotFound means that the process has not put the key before the last barrier, or that the launcher does not provide it.
var ErrNotFound = errors.New("pmix: no such key")

// library is the loaded library: its functions, with the types of pmix.h. Pointers to memory of C are uintptr and called
// addresses here. Pointers to Go memory are typed. The library copies what they point to.
type library struct {
	init     func(self *abi.Proc, info uintptr, n uint64) int32
	finalize func(info uintptr, n uint64) int32
	put      func(scope uint8, key string, v *abi.Value) int32
	commit   func() int32
	fence    func(procs uintptr, n uint64, info *abi.Info, infos uint64) int32
	get      func(of *abi.Proc, key string, info *abi.Info, infos uint64, v *uintptr) int32
	abort    func(status int32, text string, procs uintptr, n uint64) int32
	text     func(status int32) string
	free     func(addr uintptr) // of the C library, or of an allocator in its place
}

func (l *library) symbols() dlopen.Symbols {
	return dlopen.Symbols{
		"PMIx_Init": &l.init, "PMIx_Finalize": &l.finalize, "PMIx_Put": &l.put, "PMIx_Commit": &l.commit, "PMIx_Fence": &l.fence,
		"PMIx_Get": &l.get, "PMIx_Abort": &l.abort, "PMIx_Error_string": &l.text, "free": &l.free,
	}
}

// load loads the library with the given name.
func load(name string) (*library, error) {
	l := &library{}
	err := dlopen.Load(&dlopen.Library{
		Name:     name,
		Packages: "the package libpmix2 (Debian, Ubuntu) or pmix (Fedora, SUSE)",
		Version:  "libpmix 3 or newer",
		Shared:   []string{"free"},
		Global:   true, // some builds have plug-ins that expect the functions of the library to be there
	}, l.symbols())
	if err != nil {
		return nil, err
	}
	return l, nil
}

// check returns the error of a call.
func (l *library) check(call string, status int32) error {
	switch status {
	case abi.Success:
		return nil
	case abi.NotFound:
		return fmt.Errorf("%w: %s", ErrNotFound, call)
	}
	return fmt.Errorf("pmix: %s: %s (%d)", call, l.text(status), status)
}

// value is a value that Get has returned.
type value struct {
	number int    // of an integer
	bytes  []byte // of a string or a byte object
}

// take returns a value at an address that the library has allocated, and frees its memory.
func (l *library) take(addr uintptr) (value, error) {
	v := valueAt(addr)
	defer l.free(addr)
	switch v.Type {
	case abi.TypeString:
		defer l.free(v.Bytes)
		return value{bytes: stringAt(v.Bytes)}, nil
	case abi.TypeByteObject:
		defer l.free(v.Bytes)
		return value{bytes: bytesAt(v.Bytes, v.Size)}, nil
	case abi.TypeUint16:
		return value{number: int(uint16(v.Bytes))}, nil
	case abi.TypeInt, abi.TypeInt32:
		return value{number: int(int32(v.Bytes))}, nil
	case abi.TypeUint, abi.TypeUint32, abi.TypeProcRank:
		return value{number: int(uint32(v.Bytes))}, nil
	case abi.TypeSize, abi.TypeUint64:
		return value{number: int(v.Bytes)}, nil
	}
	return value{}, fmt.Errorf("the launcher has a value of unexpected type %d", v.Type)
}
