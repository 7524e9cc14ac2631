//go:build linux

package uverbs

// Unsafe because these system calls are made with the addresses of what they take. It is kept alive by the arguments until the
// call returns, and so are the answers whose addresses are in it.

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// post does not tell the scheduler, which would take a tenth of the time of a doorbell, and now and then the processor. Until it
// returns the runtime can neither stop this thread nor use its processor otherwise; so it is for commands that do not wait. The
// longest is the doorbell of rxe up to Linux 6.3, which sends from within, but never more than the 128 packets of its window.
// RawSyscall is that of package syscall, since that of package unix comes to it by two more calls.
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
