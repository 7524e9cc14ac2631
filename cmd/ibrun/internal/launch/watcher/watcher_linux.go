package watcher

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketFD is the descriptor of the socket that the watcher inherits.
const socketFD = 3

// startedAsWatcher is the environment variable by which a program knows that it was started as watcher. Main removes it. In a
// program that does not know the command "watch", such as a test, it remains, and Start refuses to start a watcher: otherwise
// every such process would start the next one.
const startedAsWatcher = "IBRUN_STARTED_AS_WATCHER"

// Watcher is a running watcher, as ibrun controls it. All methods except Close may be called by any goroutine.
type Watcher struct {
	// Lost is closed when the watcher has died before Close.
	Lost chan struct{}

	pid    int
	pidfd  int
	socket *os.File
	events chan *event

	starting sync.Mutex         // held from the order to run a command until its answer
	mu       sync.Mutex         // held while an order is sent
	commands []*Running         // by ID, from 1
	status   syscall.WaitStatus // of the watcher itself; set before Lost is closed
}

// Running is a command that the watcher has started.
type Running struct {
	PID    int
	PIDFD  int    // -1: the command had exited before it could be opened; closed by Release and by Watcher.Close
	Cgroup string // the directory of its control group; empty: none
	// Ended receives once, when the command has exited, and, if no other command runs, no process below it is left. It never
	// receives if the watcher dies.
	Ended chan *Ended

	watcher *Watcher
	id      int
}

// Start starts a watcher. The caller must call Close.
func Start() (*Watcher, error) {
	if os.Getenv(startedAsWatcher) != "" {
		return nil, errors.New("start watcher: this program was itself started as a watcher, and does not know the command watch" +
			" (" + startedAsWatcher + " is set)")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start watcher: %w", err)
	}
	defer unix.Close(fds[1])
	devNull, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(fds[0])
		return nil, fmt.Errorf("start watcher: %w", err)
	}
	defer devNull.Close()
	// The watcher does not hold ibrun's streams: a reader of ibrun's output must not wait for it.
	null := devNull.Fd()
	pidfd := -1
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"ibrun", "watch"}, &syscall.ProcAttr{
		Env:   append(os.Environ(), startedAsWatcher+"=1"),
		Files: []uintptr{null, null, null, socketFD: uintptr(fds[1])},
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err == nil {
		err = unix.SetNonblock(fds[0], true)
	} else if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("/proc/self/exe: %w; ibrun needs /proc", err)
	}
	if err != nil {
		unix.Close(fds[0])
		return nil, fmt.Errorf("start watcher: %w", err)
	}
	w := &Watcher{Lost: make(chan struct{}), pid: pid, pidfd: pidfd, socket: os.NewFile(uintptr(fds[0]), "watcher"),
		events: make(chan *event)}
	go w.receive()
	return w, nil
}

// receive passes on the events of the watcher until it exits.
func (w *Watcher) receive() {
	buf := make([]byte, maxMessage)
	for {
		n, err := w.socket.Read(buf)
		if err == io.EOF {
			n, err = w.socket.Read(buf) // it may not be the end: see fdpass.Receiver.Receive
		}
		if n == 0 || err != nil {
			break
		}
		e, err := decodeEvent(buf[:n])
		if err != nil {
			break // the other side is of the same build, so this does not occur
		}
		if e.Ended == nil {
			w.events <- e
			continue
		}
		w.mu.Lock()
		running := w.commands[e.ID-1]
		w.mu.Unlock()
		running.Ended <- e.Ended
	}
	for {
		if _, err := unix.Wait4(w.pid, (*unix.WaitStatus)(&w.status), 0, nil); err != unix.EINTR {
			break
		}
	}
	close(w.Lost)
}

// Run starts a command. Several may run at a time.
func (w *Watcher) Run(c Command) (*Running, error) {
	w.starting.Lock()
	defer w.starting.Unlock()
	r := &Running{PIDFD: -1, Ended: make(chan *Ended, 1), watcher: w}
	w.mu.Lock()
	w.commands = append(w.commands, r)
	r.id = len(w.commands)
	w.mu.Unlock()
	o := &order{ID: r.id, Run: &c}
	var fds []int
	for i, f := range c.Files {
		if f != ^uintptr(0) {
			fds, o.Positions = append(fds, int(f)), append(o.Positions, i)
		}
	}
	err := w.send(o, fds)
	if err != nil {
		return nil, err
	}
	select {
	case e := <-w.events:
		if e.Err != "" {
			return nil, fmt.Errorf("%s: %w", e.Err, e.Errno)
		}
		r.PID, r.Cgroup = e.PID, e.Cgroup
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.PIDFD, err = unix.PidfdOpen(r.PID, 0); err != nil {
			r.PIDFD = -1
		}
		return r, nil
	case <-w.Lost:
		return nil, errors.New(w.LostReason())
	}
}

// LostReason describes how the watcher died. It must be called after Lost was closed.
func (w *Watcher) LostReason() string {
	why := "died"
	if w.status.Signaled() {
		why = fmt.Sprintf("was killed by signal %d (%s)", w.status.Signal(), unix.SignalName(w.status.Signal()))
	}
	return fmt.Sprintf("the process that watches ibrun and its agent (pid %d) %s", w.pid, why)
}

// Signal sends a signal to the command.
func (r *Running) Signal(sig syscall.Signal) {
	_ = r.watcher.send(&order{ID: r.id, Signal: sig}, nil) // if the watcher has died, Lost says so
}

// Kill kills the session of the command. What has left the session is killed when no command is left.
func (r *Running) Kill() { _ = r.watcher.send(&order{ID: r.id, Kill: true}, nil) } // as in Signal

// Release closes PIDFD. A caller that starts many commands, one after the other, calls it after the end of each.
func (r *Running) Release() {
	r.watcher.mu.Lock()
	defer r.watcher.mu.Unlock()
	r.closePIDFD()
}

// closePIDFD closes PIDFD, unless it is closed. The caller must hold the lock of the watcher.
func (r *Running) closePIDFD() {
	if r.PIDFD >= 0 {
		unix.Close(r.PIDFD)
		r.PIDFD = -1
	}
}

// Kill kills all commands and everything below the watcher.
func (w *Watcher) Kill() { _ = w.send(&order{Kill: true}, nil) } // as in Signal

// RemoveAtDeath makes the watcher remove files if ibrun dies. They need not exist.
func (w *Watcher) RemoveAtDeath(files Leftovers) { _ = w.send(&order{Leftovers: &files}, nil) } // as in Signal

// wake continues the watcher, which may have been stopped.
func (w *Watcher) wake() {
	_ = unix.PidfdSendSignal(w.pidfd, unix.SIGCONT, nil, 0) // it may have exited
}

// send sends an order with files.
func (w *Watcher) send(o *order, fds []int) error {
	text, err := json.Marshal(o)
	if err == nil && len(text) > maxMessage {
		err = fmt.Errorf("an order of %d bytes is too long", len(text))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	var conn syscall.RawConn
	if err == nil {
		conn, err = w.socket.SyscallConn()
	}
	if err != nil {
		return fmt.Errorf("watcher: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var sendErr error
	err = conn.Write(func(fd uintptr) bool {
		sendErr = unix.Sendmsg(int(fd), text, rights, nil, unix.MSG_NOSIGNAL)
		return sendErr != unix.EAGAIN
	})
	if err = cmp.Or(err, sendErr); err != nil {
		return fmt.Errorf("watcher: %w", err)
	}
	w.wake()
	return nil
}

// Close ends everything that the watcher has started, and waits until the watcher has exited. If it does not, Close kills it.
// It may be called more than once.
func (w *Watcher) Close() error {
	conn, err := w.socket.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // it may have died
	}
	w.wake()
	select {
	case <-w.Lost:
	case <-time.After(closeTimeout):
		_ = unix.PidfdSendSignal(w.pidfd, unix.SIGKILL, nil, 0) // it may exit now
		<-w.Lost
	}
	if w.pidfd >= 0 {
		unix.Close(w.pidfd)
		w.pidfd = -1
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.commands {
		r.closePIDFD()
	}
	return errors.Join(err, w.socket.Close())
}

// receiveOrder receives an order, and the files that came with it. At the end of the stream it returns io.EOF.
func receiveOrder(socket int, buf []byte) (*order, []int, error) {
	rights := make([]byte, unix.CmsgSpace(4*maxFiles))
	var n, oobn, flags int
	for range 2 { // a length of 0 may not be the end: see fdpass.Receiver.Receive
		err := error(unix.EINTR)
		for err == unix.EINTR {
			n, oobn, flags, _, err = unix.Recvmsg(socket, buf, rights, unix.MSG_CMSG_CLOEXEC)
		}
		if err != nil {
			return nil, nil, err
		}
		if n != 0 {
			break
		}
	}
	var fds []int
	messages, err := unix.ParseSocketControlMessage(rights[:oobn])
	for i := range messages {
		if list, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, list...)
		}
	}
	switch {
	case err != nil:
	case n == 0:
		err = io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = errors.New("an order was truncated")
	}
	var o *order
	if err == nil {
		o, err = decodeOrder(buf[:n], len(fds))
	}
	if err != nil {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, nil, err
	}
	return o, fds, nil
}
