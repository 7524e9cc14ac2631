package pmix

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// withoutSignals calls f on a thread that has blocked all signals. Threads that f creates inherit that.
func withoutSignals(f func()) error {
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	runtime.LockOSThread() // the mask belongs to the thread
	defer runtime.UnlockOSThread()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return fmt.Errorf("pmix: block the signals of a thread: %w", err)
	}
	f()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); err != nil {
		return fmt.Errorf("pmix: unblock the signals of a thread: %w", err)
	}
	return nil
}
