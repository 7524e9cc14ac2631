package bench

// unsafe is used to learn the address of a slice: buffers begin on a page, as those of the C twin do, so that both
// cross the same number of pages and cache lines.

import (
	"os"
	"unsafe"

	"github.com/ibrun/ibrun/mpi"
)

// pageAligned returns n elements that begin on a page, every one of them written.
func pageAligned[T mpi.Elem](n int, fill T) []T {
	width := int(unsafe.Sizeof(fill))
	page := os.Getpagesize()
	room := make([]T, n+page/width)
	skip := 0
	if past := int(uintptr(unsafe.Pointer(unsafe.SliceData(room))) % uintptr(page)); past != 0 {
		skip = (page - past) / width
	}
	for i := range room {
		room[i] = fill
	}
	return room[skip : skip+n : skip+n]
}
