package regcache

// This file is unsafe because memory is found by its address, and because the collector reports the end of an object for a
// pointer into it, whatever its type.

import (
	"runtime"
	"unsafe"
	"weak"
)

// bounds returns the addresses of the first byte of b and of the byte after the last.
func bounds(b []byte) (from, to uintptr) {
	from = uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return from, from + uintptr(len(b))
}

// addCleanup adds a cleanup that adds e to l when the collector frees the memory of b. It returns false if the runtime does not
// own that memory. The order of the calls matters: AddCleanup refuses foreign memory with a panic that can be recovered, but
// weak.Make ends the program.
func (e *entry) addCleanup(b []byte, l *invalidatedList) (owned bool) {
	p := unsafe.SliceData(b)
	defer func() {
		if recover() != nil {
			owned = false
		}
	}()
	cleanup := runtime.AddCleanup(p, l.add, e)
	w := weak.Make(p)
	e.stop = cleanup.Stop
	e.alive = func() bool { return w.Value() != nil }
	return true
}

// stopCleanup cancels the cleanup.
func (e *entry) stopCleanup() {
	if e.stop != nil {
		e.stop()
		e.stop = nil
	}
}
