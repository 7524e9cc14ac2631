//go:build !race

package coll

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/memaddr"
)

// sparse returns memory of which the first words bytes can be used, and the function that makes a part of the rest usable. Any
// other access is a fault. So all tests that use it show that no byte is used before it has been allocated.
func sparse(t testing.TB, n, words int) (mem []byte, allocate func(part []byte) error) {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	allocate = func(part []byte) error {
		from := int(memaddr.Of(part) - memaddr.Of(mem))
		page := from - from%os.Getpagesize()
		return unix.Mprotect(mem[page:from+len(part)], unix.PROT_READ|unix.PROT_WRITE)
	}
	if words != 0 {
		if err := allocate(mem[:words]); err != nil {
			t.Fatal(err)
		}
	}
	return mem, allocate
}
