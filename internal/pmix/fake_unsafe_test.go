package pmix

// Unsafe because the fake library hands out addresses of Go memory, as the real one does of C's. The fake keeps that memory
// alive, and Go does not move it.

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	abi "github.com/ibrun/ibrun/internal/abi/pmix"
)

type fakeKey struct {
	rank uint32
	key  string
}

// fake is a library and a launcher with one process at a time.
type fake struct {
	t      *testing.T
	size   int
	status int32 // of all calls, if it is not 0
	block  chan struct{}

	self          uint32
	put           map[fakeKey][]byte    // not yet visible
	stored        map[fakeKey]abi.Value // visible
	memory        []any                 // what stored and the values refer to
	values, freed int
	aborted       string
}

func newFake(t *testing.T, size int) *fake {
	f := &fake{t: t, size: size, put: map[fakeKey][]byte{}, stored: map[fakeKey]abi.Value{}}
	f.provide(abi.RankWildcard, abi.KeyJobSize, abi.TypeUint32, size)
	return f
}

// client returns the client of a process.
func (f *fake) client(rank int) *Client {
	f.t.Helper()
	f.self = uint32(rank)
	c := &Client{lib: &library{
		init: func(self *abi.Proc, _ uintptr, _ uint64) int32 {
			copy(self.Nspace[:], "job")
			self.Rank = f.self
			return f.status
		},
		finalize: func(uintptr, uint64) int32 { return f.status },
		put: func(scope uint8, key string, v *abi.Value) int32 {
			if scope != abi.ScopeGlobal || v.Type != abi.TypeByteObject {
				f.t.Errorf("put with scope %d and type %d", scope, v.Type)
			}
			f.put[fakeKey{f.self, key}] = bytesAt(v.Bytes, v.Size)
			return f.status
		},
		commit: func() int32 { return f.status },
		fence: func(_ uintptr, _ uint64, info *abi.Info, n uint64) int32 {
			f.checkFlag(info, n, abi.KeyCollect)
			if f.block != nil {
				<-f.block
			}
			for key, value := range f.put {
				f.provide(key.rank, key.key, abi.TypeByteObject, string(value))
			}
			return f.status
		},
		get: f.get,
		abort: func(status int32, text string, _ uintptr, _ uint64) int32 {
			f.aborted = fmt.Sprint(status, " ", text)
			return f.status
		},
		text: func(status int32) string { return fmt.Sprint("status ", status) },
		free: func(uintptr) { f.freed++ },
	}}
	if err := c.init(); err != nil {
		f.t.Fatal(err)
	}
	c.size = f.size
	return c
}

func (f *fake) checkFlag(info *abi.Info, n uint64, want string) {
	key, _, _ := bytes.Cut(info.Key[:], []byte{0})
	if n != 1 || string(key) != want || info.Value.Type != abi.TypeBool || info.Value.Bytes != 1 {
		f.t.Errorf("the parameter is %+v, want %s", info.Value, want)
	}
}

func (f *fake) get(of *abi.Proc, key string, info *abi.Info, n uint64, addr *uintptr) int32 {
	f.checkFlag(info, n, abi.KeyImmediate)
	v, ok := f.stored[fakeKey{of.Rank, key}]
	switch {
	case f.status != 0:
		return f.status
	case !ok || !bytes.HasPrefix(of.Nspace[:], []byte("job\x00")):
		return abi.NotFound
	}
	copied := &v
	f.memory = append(f.memory, copied)
	*addr = uintptr(unsafe.Pointer(copied))
	f.values++
	if v.Type == abi.TypeString || v.Type == abi.TypeByteObject {
		f.values++
	}
	return 0
}

// provide makes a value visible.
func (f *fake) provide(rank uint32, key string, kind uint16, content any) {
	v := abi.Value{Type: kind}
	switch content := content.(type) {
	case int:
		v.Bytes = uintptr(content)
	case string:
		b := append([]byte(content), 0)
		f.memory = append(f.memory, b)
		v.Bytes, v.Size = uintptr(unsafe.Pointer(&b[0])), uint64(len(content))
	}
	f.stored[fakeKey{rank, key}] = v
}
