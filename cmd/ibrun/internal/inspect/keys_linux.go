package inspect

import (
	"errors"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// keyboard is a terminal whose keys are read one by one, without echo, while this process is in its foreground. Keys that send
// signals still do, so the terminal has its own mode again whenever a signal stops or ends the process.
type keyboard struct {
	fd      int
	signals chan os.Signal

	mu     sync.Mutex
	usual  *unix.Termios // the mode of the terminal before; nil: it is set
	closed bool
}

// watchKeys calls quit when a user types q. If in is not a terminal, it does nothing. The caller must call restore before the
// process ends.
func watchKeys(in *os.File, quit func()) (restore func(), err error) {
	k := &keyboard{fd: int(in.Fd()), signals: make(chan os.Signal, 8)}
	if err := k.set(); errors.Is(err, unix.ENOTTY) {
		return func() {}, nil
	} else if err != nil {
		return nil, os.NewSyscallError("ioctl", err)
	}
	signal.Notify(k.signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT)
	go k.handleSignals()
	go func() {
		key := make([]byte, 1)
		for {
			switch n, err := in.Read(key); {
			case err != nil || n == 0:
				return
			case key[0] == 'q' || key[0] == 'Q':
				quit()
				return
			}
		}
	}()
	return k.close, nil
}

// set makes the terminal deliver keys at once. In the background it does nothing, since that would stop the process.
func (k *keyboard) set() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	usual, err := unix.IoctlGetTermios(k.fd, unix.TCGETS)
	if err != nil {
		return err
	}
	group, err := unix.IoctlGetInt(k.fd, unix.TIOCGPGRP)
	if err != nil || k.closed || k.usual != nil || group != unix.Getpgrp() {
		return err
	}
	mode := *usual
	mode.Lflag &^= unix.ICANON | unix.ECHO
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(k.fd, unix.TCSETS, &mode); err != nil {
		return err
	}
	k.usual = usual
	return nil
}

// restore gives the terminal the mode that it had.
func (k *keyboard) restore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.usual != nil {
		_ = unix.IoctlSetTermios(k.fd, unix.TCSETS, k.usual) // the terminal may be gone
		k.usual = nil
	}
}

func (k *keyboard) close() {
	signal.Stop(k.signals)
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.restore()
}

// handleSignals restores the terminal before a signal has its default action, and sets it when the process continues.
func (k *keyboard) handleSignals() {
	self := unix.Getpid() // a process may send itself signals
	for s := range k.signals {
		switch {
		case s == unix.SIGCONT:
			_ = k.set() // without the terminal, no key arrives
		case s != unix.SIGTSTP:
			k.restore()
			signal.Reset(s)
			_ = unix.Kill(self, s.(unix.Signal))
		case canBeContinued():
			k.restore()
			_ = unix.Kill(self, unix.SIGSTOP) // the runtime of Go has no default action for SIGTSTP
		}
	}
}

// canBeContinued reports whether a shell has started this process in its own session, and can continue it. The kernel does not
// stop other processes by SIGTSTP.
func canBeContinued() bool {
	own, err := unix.Getsid(0)
	shell, errShell := unix.Getsid(unix.Getppid())
	return err == nil && errShell == nil && own == shell
}
