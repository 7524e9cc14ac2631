package threadtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/waittest"
)

// TestRun: the thread is another one than the main thread, and ends.
func TestRun(t *testing.T) {
	for range 1000 { // without the check in Run, one of the first goroutines begins on the main thread
		thread := 0
		Run(func() { thread = unix.Gettid() })
		if thread == 0 || thread == unix.Getpid() {
			t.Fatalf("it ran on thread %d of process %d", thread, unix.Getpid())
		}
		waittest.Until(t, fmt.Sprintf("thread %d ends", thread), func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
			return errors.Is(err, fs.ErrNotExist)
		})
	}
}

// TestGoexit: Run returns if its function ends the goroutine, as t.FailNow does.
func TestGoexit(t *testing.T) {
	ended := false
	Run(func() {
		defer func() { ended = true }()
		runtime.Goexit()
	})
	if !ended {
		t.Error("the function did not end")
	}
}
