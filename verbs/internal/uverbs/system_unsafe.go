//go:build linux

package uverbs

// Unsafe because these system calls take addresses of Go memory. The arguments keep it alive until the call returns, and also the
// responses whose addresses are in it.

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// post does not notify the scheduler, which would take a tenth of the time of a doorbell, and sometimes lose the processor to
// another goroutine. Until post returns, the runtime can neither stop this thread nor give its processor to another goroutine. So
// it is only for commands that do not block. The longest is the doorbell of rxe up to Linux 6.3, which sends packets, but never
// more than the 128 of its window. RawSyscall is that of package syscall: the function of package unix makes two more calls.
func post(fd int, command, resp []byte) error {
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(command))),
			uintptr(len(command)))
		runtime.KeepAlive(resp)
		switch {
		case errno == unix.EINTR: // nothing was done
		case errno != 0:
			return errno
		case n != uintptr(len(command)):
			return unix.EIO // as in Write
		default:
			return nil
		}
	}
}

func (system) Ioctl(fd int, request, resp []byte) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), abi.VerbsIoctl,
			uintptr(unsafe.Pointer(unsafe.SliceData(request))))
		runtime.KeepAlive(resp)
		switch errno {
		case 0:
			return nil
		case unix.EINTR: // nothing was done
		default:
			return errno
		}
	}
}
