// Unsafe because a page is memory that processes share, which has to be looked at as words in place; its length and alignment are
// checked here, and no pointer is derived from what it contains.

package perf

import "unsafe"

// Compile-time proof that the layout fits into a page.
const _ = PageBytes - uint64(unsafe.Sizeof(layout{}))

// overlay looks at memory as a page; nil if it is too short or not aligned.
func overlay(b []byte) *layout {
	if len(b) < int(unsafe.Sizeof(layout{})) {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%8 != 0 {
		return nil
	}
	return (*layout)(p)
}

// overlayTrace looks at memory as a trace; nil if it is too short or not aligned.
func overlayTrace(b []byte) *traceLayout {
	if len(b) < int(unsafe.Sizeof(traceLayout{})) {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%8 != 0 {
		return nil
	}
	return (*traceLayout)(p)
}

// Compile-time proof that a trace is laid out as its reader thinks.
const (
	_ = TraceBytes - uint64(unsafe.Sizeof(traceLayout{}))
	_ = -(unsafe.Offsetof(traceLayout{}.events) - TraceHead)
	_ = -(unsafe.Sizeof(traceEvent{}) - traceEventBytes)
)

const layoutBytes = uint64(unsafe.Sizeof(layout{}))
