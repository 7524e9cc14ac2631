package watcher

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	commands  map[int]*child // those that run, by ID
	reaper    *proctree.Reaper
	exited    chan int // receives the ID of each command that has exited
}

// child is a command that runs.
type child struct {
	pid    int
	group  *proctree.Cgroup
	linger time.Duration // see Command
}

// received is an order with its files.
type received struct {
	order *order
	fds   []int
}

// Main runs the watcher that ibrun started with a socket as descriptor 3, and returns its exit code. Without the socket it prints
// why to errs.
func Main(errs io.Writer) int {
	runtime.LockOSThread() // never unlocked: a build is killed when the thread that started it exits
	if kind, err := unix.GetsockoptInt(socketFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		fmt.Fprintln(errs, "ibrun: the command watch is only for ibrun itself; to run a program of that name: ibrun -- watch")
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
	p := &process{commands: map[int]*child{}, exited: make(chan int)}
	p.handle(orders)
	p.linger()
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
				p.run(r.order, r.fds)
			case r.order.Leftovers != nil:
				p.leftovers = append(p.leftovers, *r.order.Leftovers)
			case r.order.Kill && r.order.ID == 0:
				p.end()
			default:
				p.signal(r.order)
			}
		case id := <-p.exited:
			p.handleExit(id)
		}
	}
}

// handleExit reports that a command has exited. If it was the last one, nothing below this process may be left.
func (p *process) handleExit(id int) {
	if len(p.commands) == 1 && p.commands[id] != nil {
		p.end()
	} else {
		p.report(id, new(Ended))
	}
}

// linger waits for the commands that may run on after ibrun has died. To kill those at once would prevent what they have started
// from ending in order, and from removing its files and control groups.
func (p *process) linger() {
	limit := time.Duration(0)
	for _, c := range p.commands {
		limit = max(limit, c.linger)
	}
	for over := time.After(limit); limit > 0 && len(p.commands) > 0; {
		select {
		case id := <-p.exited:
			p.handleExit(id)
		case <-over:
			return
		}
	}
}

// signal sends a signal to one command, or kills its session. The command may have ended meanwhile.
func (p *process) signal(o *order) {
	c := p.commands[o.ID]
	switch {
	case c == nil:
	case o.Kill:
		_ = unix.Kill(-c.pid, unix.SIGKILL) // only this process could have reaped it
	case o.Signal != 0:
		_ = unix.Kill(c.pid, o.Signal)
	}
}

// run starts a command, and reports it or why it cannot be started.
func (p *process) run(o *order, fds []int) {
	c, count := o.Run, 0
	for _, at := range o.Positions {
		count = max(count, at+1)
	}
	files := slices.Repeat([]uintptr{^uintptr(0)}, count+1)
	for i, at := range o.Positions {
		files[at] = uintptr(fds[i])
	}
	started := &child{linger: c.Linger}
	sys := &syscall.SysProcAttr{Setsid: true}
	if c.Cgroup != "" {
		if started.group = proctree.NewCgroup(c.Cgroup); started.group != nil {
			files[count] = uintptr(started.group.FD)
		}
	}
	if c.KilledTogether {
		sys.Pdeathsig = syscall.SIGKILL
	}
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: c.environment(os.Environ()), Files: files, Sys: sys}
	err := p.start(started, func() (int, error) { return syscall.ForkExec(c.Path, c.Args, attr) })
	for _, fd := range fds {
		unix.Close(fd)
	}
	if err != nil {
		_ = started.group.Remove() // it is empty
		started.group.Close()
		e := &event{Err: "start " + c.Path}
		if !errors.As(err, &e.Errno) {
			e.Err += ": " + err.Error()
			e.Errno = syscall.EINVAL
		}
		send(e)
		return
	}
	e := &event{PID: started.pid}
	if started.group != nil {
		e.Cgroup = started.group.Dir
	}
	send(e)
	p.commands[o.ID] = started
	go func(r *proctree.Reaper) {
		r.Wait(started.pid)
		p.exited <- o.ID
	}(p.reaper)
}

// start starts a child that the reaper waits for. The calling thread is the main one: see KilledTogether.
func (p *process) start(c *child, fork func() (int, error)) (err error) {
	if p.reaper != nil {
		c.pid, err = p.reaper.Start(fork)
		if !errors.Is(err, proctree.ErrGone) {
			return err
		}
	}
	if c.pid, err = fork(); err == nil {
		p.reaper = proctree.NewReaper(c.pid)
	}
	return err
}

// end kills all commands and everything below this process, and reports that.
func (p *process) end() {
	if len(p.commands) == 0 {
		return
	}
	var group *proctree.Cgroup // at most one command has one
	for _, c := range p.commands {
		group = cmp.Or(group, c.group)
	}
	stuck := proctree.KillDescendants(p.reaper.Gone, group)
	for id := range p.commands {
		p.report(id, &Ended{Stuck: stuck})
	}
}

// report reports the end of a command, with its status unless it is stuck. It ignores commands whose end was reported before.
func (p *process) report(id int, ended *Ended) {
	c := p.commands[id]
	if c == nil {
		return
	}
	delete(p.commands, id)
	if len(ended.Stuck) == 0 {
		ws, _ := p.reaper.Wait(c.pid)
		ended.Status = syscall.WaitStatus(ws)
		if err := c.group.Remove(); err != nil {
			ended.Err = err.Error()
		}
	}
	c.group.Close()
	send(&event{ID: id, Ended: ended})
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
