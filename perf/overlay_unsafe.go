// Unsafe because a page is memory shared by processes, which is read and written in place as words. Length and alignment are
// checked here, and no pointer is derived from the content.

package perf

import "unsafe"

// Compile-time proof that the layout fits into a page.
const _ = PageBytes - uint64(unsafe.Sizeof(layout{}))

// overlay returns memory as a page; nil if it is too short or not aligned.
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

// overlayTrace returns memory as a trace; nil if it is too short or not aligned.
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

// Compile-time proof that the layout of a trace is that of its reader.
const (
	_ = TraceBytes - uint64(unsafe.Sizeof(traceLayout{}))
	_ = -(unsafe.Offsetof(traceLayout{}.events) - TraceHead)
	_ = -(unsafe.Sizeof(traceEvent{}) - traceEventBytes)
)

const layoutBytes = uint64(unsafe.Sizeof(layout{}))
