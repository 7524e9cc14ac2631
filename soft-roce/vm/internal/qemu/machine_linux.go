package qemu

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Machine is a started virtual machine. Its methods may be called concurrently.
type Machine struct {
	// Channel is the host's end of the guest's serial port. It ends when the machine does.
	Channel net.Conn

	cmd     *exec.Cmd
	console console
	done    chan struct{}
	err     error // how the machine ended; written before done is closed
}

// Start starts a machine. wire is the end of a wire or nil; Start does not close it.
func Start(c Config, wire *os.File) (*Machine, error) {
	hostEnd, guestEnd, err := socketPair("channel to the guest")
	if err != nil {
		return nil, err
	}
	defer guestEnd.Close()
	defer hostEnd.Close() // net.FileConn has made a descriptor of its own
	m := &Machine{done: make(chan struct{})}
	if m.Channel, err = net.FileConn(hostEnd); err != nil {
		return nil, err
	}
	m.cmd = exec.Command(Program, append(c.arguments(wire != nil), c.boot()...)...)
	m.cmd.Stdout, m.cmd.Stderr = &m.console, &m.console
	m.cmd.ExtraFiles = []*os.File{guestEnd}
	if wire != nil {
		m.cmd.ExtraFiles = append(m.cmd.ExtraFiles, wire)
	}
	// With its own process group, the machine does not get the SIGINT of Ctrl-C. This process ends the machine.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends the Pdeathsig signal when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := m.cmd.Start()
		started <- err
		if err == nil {
			m.err = m.cmd.Wait()
			close(m.done)
		}
	}()
	if err := <-started; err != nil {
		m.Channel.Close()
		return nil, fmt.Errorf("start a virtual machine: %w", err)
	}
	return m, nil
}

// Done is closed when the machine has ended.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Kill ends the machine and blocks until it has ended.
func (m *Machine) Kill() {
	_ = m.cmd.Process.Kill() // fails if the machine has ended
	<-m.done
	m.Channel.Close()
}

// Console returns the end of the output of the guest's kernel and of QEMU.
func (m *Machine) Console() string { return m.console.end() }

// NewWire returns the two ends of a network cable for two machines.
func NewWire() (a, b *os.File, err error) { return socketPair("wire") }

// socketPair returns two connected sockets.
func socketPair(name string) (a, b *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, errors.Join(errors.New(name), os.NewSyscallError("socketpair", err))
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}
