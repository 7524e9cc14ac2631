// Package threadtest runs, in tests, what changes the thread that it runs on.
package threadtest

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Run calls f on a thread that ends with it, and returns when f has returned. So f may change what belongs to its thread alone,
// such as the namespaces. Goroutines that f starts run on other threads.
//
// The thread is never the main one. That one cannot end, and /proc/self shows its namespaces as those of the process.
func Run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			Run(f) // on another thread, since this one is locked meanwhile
			return
		}
		f() // the thread stays locked, so the runtime ends it with the goroutine
	}()
	<-done
}
