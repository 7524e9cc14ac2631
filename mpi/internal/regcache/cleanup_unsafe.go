package regcache

// Unsafe because memory is found by its address, and because the collector is asked about objects by a pointer into them
// whatever their type.

import (
	"runtime"
	"unsafe"
	"weak"
)

func bounds(b []byte) (from, to uintptr) {
	from = uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return from, from + uintptr(len(b))
}

// watch has the collector tell when the memory of b is gone. It reports false if the runtime does not own that memory. The
// order matters: AddCleanup refuses foreign memory with a panic that can be caught, weak.Make ends the program.
func (e *entry) watch(b []byte, g *graveyard) (owned bool) {
	p := unsafe.SliceData(b)
	defer func() {
		if recover() != nil {
			owned = false
		}
	}()
	cleanup := runtime.AddCleanup(p, g.add, e)
	w := weak.Make(p)
	e.stop = cleanup.Stop
	e.alive = func() bool { return w.Value() != nil }
	return true
}

// unwatch takes back what watch has asked for.
func (e *entry) unwatch() {
	if e.stop != nil {
		e.stop()
		e.stop = nil
	}
}
