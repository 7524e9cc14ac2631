package watcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
)

// closeTimeout is how long the watcher may take to end after ibrun has asked for it. It is longer than the kernel may take to
// kill a process.
const closeTimeout = proctree.KillTimeout + 5*time.Second

// process is the watcher itself.
type process struct {
	leftovers []Leftovers

	// The command that runs.
	pid    int
	reaper *proctree.Reaper // nil: no command runs
	group  *proctree.Cgroup
	exited chan struct{} // closed when the command has exited
}

// received is an order with its files.
type received struct {
	order *order
	fds   []int
}

// Main runs the watcher that ibrun started with a socket as descriptor 3, and returns its exit code.
func Main() int {
	runtime.LockOSThread() // never unlocked: a build is killed when the thread that started it exits
	if kind, err := unix.GetsockoptInt(socketFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		fmt.Fprintln(os.Stderr, "ibrun: the command watch is only for ibrun itself; to run a program of that name: ibrun -- watch")
		return exitcode.UsageError
	}
	unix.CloseOnExec(socketFD)
	os.Unsetenv(startedAsWatcher) // what is started may use ibrun
	// A user who ends ibrun may signal all of its processes. The watcher must survive that, to end the others.
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGPIPE, unix.SIGTSTP} {
		if !signal.Ignored(sig) { // because of nohup: what is started inherits that
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	if err := proctree.BecomeSubreaper(); err != nil {
		return exitcode.Failed
	}
	orders := make(chan received)
	go func() {
		defer close(orders)
		buf := make([]byte, maxMessage)
		for {
			o, fds, err := receiveOrder(socketFD, buf)
			if err != nil {
				return // ibrun has died, or has called Close
			}
			orders <- received{o, fds}
		}
	}()
	p := &process{}
	p.handle(orders)
	p.end()
	p.removeLeftovers()
	return 0
}

// handle executes orders until ibrun has died or has called Close.
func (p *process) handle(orders <-chan received) {
	for {
		select {
		case r, alive := <-orders:
			switch {
			case !alive:
				return
			case r.order.Run != nil:
				p.run(r.order.Run, r.order.Positions, r.fds)
			case r.order.Leftovers != nil:
				p.leftovers = append(p.leftovers, *r.order.Leftovers)
			case p.reaper == nil: // the command has ended meanwhile
			case r.order.Kill:
				p.end()
			case r.order.Signal != 0:
				_ = unix.Kill(p.pid, r.order.Signal) // it may have exited; only this process could have reaped it
			}
		case <-p.exited:
			p.end()
		}
	}
}

// run starts a command, and reports it or why it cannot be started.
func (p *process) run(c *Command, positions, fds []int) {
	count := 0
	for _, at := range positions {
		count = max(count, at+1)
	}
	files := slices.Repeat([]uintptr{^uintptr(0)}, count+1)
	for i, at := range positions {
		files[at] = uintptr(fds[i])
	}
	sys := &syscall.SysProcAttr{Setsid: true}
	if c.Cgroup != "" {
		if p.group = proctree.NewCgroup(c.Cgroup); p.group != nil {
			files[count] = uintptr(p.group.FD)
		}
	}
	if c.KilledTogether {
		sys.Pdeathsig = syscall.SIGKILL
	}
	env := append(c.Env, os.Environ()...) // of two variables with one name, programs read the first
	pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{Dir: c.Dir, Env: env, Files: files, Sys: sys})
	for _, fd := range fds {
		unix.Close(fd)
	}
	if err != nil {
		_ = p.group.Remove() // it is empty
		p.group.Close()
		p.group = nil
		e := &event{Err: "start " + c.Path}
		if !errors.As(err, &e.Errno) {
			e.Err += ": " + err.Error()
			e.Errno = syscall.EINVAL
		}
		send(e)
		return
	}
	e := &event{PID: pid}
	if p.group != nil {
		e.Cgroup = p.group.Dir
	}
	send(e)
	p.pid, p.reaper, p.exited = pid, proctree.NewReaper(pid), make(chan struct{})
	go func(r *proctree.Reaper, exited chan struct{}) {
		r.Wait(pid)
		close(exited)
	}(p.reaper, p.exited)
}

// end kills the command and everything below it, removes its control group, and reports that.
func (p *process) end() {
	if p.reaper == nil {
		return
	}
	ended := &Ended{Stuck: proctree.KillDescendants(p.reaper.Gone, p.group)}
	if len(ended.Stuck) == 0 {
		ended.Status = syscall.WaitStatus(p.reaper.Wait(p.pid))
		if err := p.group.Remove(); err != nil {
			ended.Err = err.Error()
		}
	}
	p.group.Close()
	p.reaper, p.group, p.exited = nil, nil, nil
	send(&event{Ended: ended})
}

// removeLeftovers removes what ibrun has left. After Close ibrun has removed it itself.
func (p *process) removeLeftovers() {
	for _, files := range p.leftovers {
		for _, path := range files.Trees {
			_ = os.RemoveAll(path) // no process is left that could report the error
		}
		for _, path := range files.Files {
			_ = os.Remove(path) // it may not exist
		}
		for _, path := range files.Dirs {
			_ = unix.Rmdir(path) // it may not exist, be used by others, or be a file of the user
		}
	}
}

// send sends an event. It ignores errors: if ibrun has died, the end of the orders shows that.
func send(e *event) {
	if text, err := json.Marshal(e); err == nil { // encoding an event cannot fail
		_ = unix.Sendmsg(socketFD, text, nil, nil, unix.MSG_NOSIGNAL)
	}
}
