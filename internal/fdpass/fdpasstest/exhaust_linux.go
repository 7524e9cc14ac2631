// Package fdpasstest lets tests reach the kernel's limit of descriptors that are on their way between processes.
package fdpasstest

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/fdpass"
)

// openFiles is the limit of open files in a test. As many descriptors may be on their way.
const openFiles = 128

// Exhaust makes sending descriptors fail with unix.ETOOMANYREFS until free is called. It affects the calling goroutine, which is
// that of the test, and lowers the limit of open files during the test.
//
// The kernel counts the descriptors that all processes of a user have on their way. So the test itself has more of them on their
// way than its limit allows: it does not depend on other processes.
func Exhaust(t *testing.T) (free func()) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	free = sync.OnceFunc(func() {
		if err := errors.Join(unix.Close(pair[0]), unix.Close(pair[1])); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(free)
	for range openFiles + 1 {
		if err := fdpass.Send(pair[0], []byte{0}, pair[0]); err != nil {
			t.Fatal(err)
		}
	}
	dropPrivileges(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: openFiles, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	})
	if err := fdpass.Send(pair[0], []byte{0}, pair[0]); !errors.Is(err, unix.ETOOMANYREFS) {
		t.Fatalf("beyond the limit: %v", err)
	}
	return free
}

// dropPrivileges takes from this thread the capabilities that lift the limit, until the test ends.
func dropPrivileges(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before [2]unix.CapUserData
	if err := unix.Capget(&header, &before[0]); err != nil {
		t.Fatal(err)
	}
	reduced := before
	reduced[0].Effective &^= 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_RESOURCE
	if err := unix.Capset(&header, &reduced[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Capset(&header, &before[0]); err != nil {
			t.Error(err) // the thread stays locked, and ends with this goroutine
			return
		}
		runtime.UnlockOSThread()
	})
}
