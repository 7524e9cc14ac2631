package ibvmock

import "syscall"

// Errnos returns the errors that tests give refused calls: those that drivers, firmware and the kernel return when something is
// created, changed or connected.
func Errnos() []syscall.Errno {
	return []syscall.Errno{syscall.ETIMEDOUT, syscall.EINTR, syscall.EIO, syscall.EBUSY, syscall.ENODATA, syscall.ENETUNREACH,
		syscall.EHOSTUNREACH, syscall.EREMOTEIO, syscall.EINVAL, syscall.ENOMEM, syscall.EAGAIN, syscall.EPERM, syscall.EOPNOTSUPP,
		syscall.ENODEV}
}
