//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
)

// Sizes of a stack for C and of the guard below it, in bytes. A function that needs more stack ends the process with SIGSEGV at
// the guard, also if it does not touch every page of a frame of up to guardBytes. Memory that is not touched costs nothing.
const (
	stackBytes = 256 << 10
	guardBytes = 1 << 20
)

// stacks are stacks on which functions of the data path run: one for each processor (P) of the runtime, mapped when it is first
// used and never unmapped.
type stacks struct {
	// tops has the initial stack pointer for every processor, or 0 if it has no stack yet. The slice is replaced, not changed.
	tops     atomic.Pointer[[]uintptr]
	mu       sync.Mutex // held to replace tops
	newStack func() (top uintptr, err error)
}

func newStacks() *stacks {
	s := &stacks{newStack: mapStack}
	s.tops.Store(new([]uintptr))
	return s
}

// call calls a function of the data path on the stack of the processor that the goroutine runs on. The goroutine is pinned, so no
// other call uses the stack. The function must not block and must not call Go.
//
// If no memory is left for a stack, the call runs on the stack of the thread.
func (s *stacks) call(fn, a, b, c uintptr) uintptr {
	for {
		p := procPin()
		if tops := *s.tops.Load(); p < len(tops) && tops[p] != 0 {
			r := callOn(tops[p], fn, a, b, c)
			procUnpin()
			return r
		}
		procUnpin()
		if err := s.add(p); err != nil {
			return onThread(fn, a, b, c)
		}
	}
}

// add maps a stack for processor p, unless it has one.
func (s *stacks) add(p int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.tops.Load()
	if p < len(old) && old[p] != 0 {
		return nil
	}
	top, err := s.newStack()
	if err != nil {
		return err
	}
	tops := make([]uintptr, max(len(old), p+1))
	copy(tops, old)
	tops[p] = top
	s.tops.Store(&tops)
	return nil
}

// mapStack maps a stack with its guard, and returns the initial stack pointer.
func mapStack() (top uintptr, err error) {
	mem, err := syscall.Mmap(-1, 0, guardBytes+stackBytes, syscall.PROT_NONE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE|syscall.MAP_STACK)
	if err != nil {
		return 0, fmt.Errorf("map a stack for C: %w", err)
	}
	if err := syscall.Mprotect(mem[guardBytes:], syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		return 0, fmt.Errorf("map a stack for C: %w", errors.Join(err, syscall.Munmap(mem)))
	}
	return endOf(mem), nil
}
