package remote

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
)

const (
	// maxConnecting is how many launch agents connect at a time. An ssh server drops connections of more clients that have not
	// logged in.
	maxConnecting = 16
	// firstRetry and lastRetry bound the time between two attempts to reach a host, which doubles.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
	// noticeAfter is how long a host may take before the user is noted what is waited for.
	noticeAfter = 5 * time.Second
	// exitTimeout is how long a command may take to exit after SIGTERM.
	exitTimeout = 3 * time.Second
	// lingerMargin is how long a command may take to exit in addition to the grace of its ranks, if
	// the coordinator has died.
	lingerMargin = 700 * time.Millisecond
)

// Starts are the nodes that are being started or were started.
type Starts struct {
	// Events receives what happens, until Close returns.
	Events <-chan Event

	events   chan Event
	opts     Options
	watcher  *watcher.Watcher
	ctx      context.Context
	cancel   context.CancelFunc
	deadline time.Time
	slots    chan struct{} // filled by those that connect
	running  sync.WaitGroup
	closing  chan struct{} // closed by Close

	mu       sync.Mutex
	commands map[*command]bool // those that have not ended
}

// Start starts the nodes, in goroutines of its own, by a watcher that starts nothing else. The caller must call Close.
func Start(w *watcher.Watcher, o Options) *Starts {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Starts{events: make(chan Event), opts: o, watcher: w, ctx: ctx, cancel: cancel, deadline: time.Now().Add(o.Timeout),
		slots: make(chan struct{}, maxConnecting), closing: make(chan struct{}), commands: map[*command]bool{}}
	s.Events = s.events
	if o.Slurm {
		for group := range max(o.Groups, 1) {
			hosts := slices.DeleteFunc(slices.Clone(o.Hosts), func(h Host) bool { return o.Groups > 0 && h.Group != group })
			if len(hosts) > 0 {
				s.running.Go(func() { s.startStep(hosts, group) })
			}
		}
		return s
	}
	for _, h := range o.Hosts {
		s.running.Go(func() { s.startHost(h) })
	}
	return s
}

// send sends an event, unless Close was called.
func (s *Starts) send(e Event) {
	select {
	case s.events <- e:
	case <-s.closing:
	}
}

// note sends a message for the user about a node, or about several for 0.
func (s *Starts) note(node int, level slog.Level, msg string, a message.Attrs) {
	if node > 0 {
		a.PeerNode = &node
	}
	s.send(Event{Node: node, Note: &message.Message{Level: level, Msg: msg, Attrs: a}})
}

// noteWaiting sends the message that hosts have not answered.
func (s *Starts) noteWaiting(node int, hosts string, c *command) {
	s.note(node, slog.LevelWarn, "still waiting for ibrun on other hosts", message.Attrs{PeerHost: hosts, Command: c.String(),
		Text: fmt.Sprintf("still waiting for %s: ibrun has not answered there; started with: %s", hosts, c)})
}

// pass sends a line that the command of a node has printed, or that of several nodes for 0. host is empty if it is not known.
func (s *Starts) pass(node int, host, line string) {
	if s.opts.JSON {
		if m, ok := message.Decode(line); ok {
			s.send(Event{Node: node, Note: m})
			return
		}
	}
	if text := withHost(line[:min(len(line), maxLine)], host); text != "" {
		s.note(node, slog.LevelWarn, "what starts ibrun on other hosts has printed a line", message.Attrs{PeerHost: host, Text: text})
	}
}

// Close waits until all commands have ended, and ends those that do not. After the end of the job the nodes end by themselves,
// and have that much time for it. The caller must not receive events meanwhile, and must close the watcher afterwards.
func (s *Starts) Close(limit time.Duration) {
	close(s.closing)
	s.cancel()
	s.mu.Lock()
	for c := range s.commands {
		c.hangUp()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	if limit > 0 && wait(ended, limit) {
		return
	}
	s.mu.Lock()
	for c := range s.commands {
		c.running.Signal(syscall.SIGTERM)
	}
	s.mu.Unlock()
	if !wait(ended, exitTimeout) {
		s.watcher.Kill()
		wait(ended, exitTimeout)
	}
}

// wait waits until a channel is closed, and reports whether that has happened in time.
func wait(done <-chan struct{}, limit time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// startHost starts a node by the launch agent, and waits until its command has ended.
func (s *Starts) startHost(h Host) {
	began, noted := time.Now(), false
	program := s.opts.Program
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		c, err := s.connect(h, program)
		if err == nil {
			s.supervise(h, c)
			return
		}
		switch left := time.Until(s.deadline); {
		case s.ctx.Err() != nil:
			return
		case err.missing && program == s.opts.Program && program != inPath:
			program, retry = inPath, firstRetry/2
			continue
		case !err.unreachable:
			s.send(Event{Node: h.Node, Err: err})
			return
		case left <= retry:
			err.Reason = fmt.Sprintf("%s, for %v (--join-timeout)", err.Reason, s.opts.Timeout)
			s.send(Event{Node: h.Node, Err: err})
			return
		case !noted && time.Since(began) > noticeAfter:
			noted = true
			left = left.Round(time.Second)
			s.note(h.Node, slog.LevelWarn, "a host cannot be reached yet", message.Attrs{PeerHost: h.Name, Error: err.Reason,
				LimitSeconds: left.Seconds(), Text: fmt.Sprintf("%s cannot be reached yet: %s; %s. It is tried for %v more "+
					"(--join-timeout)", h.Name, err.Reason, err.Remedy, left)})
		}
		select {
		case <-time.After(retry):
		case <-s.closing:
			return
		}
	}
}

// connect starts the launch agent for a host, and returns when the node has greeted and has its start message.
func (s *Starts) connect(h Host, program string) (*command, *Error) {
	select {
	case s.slots <- struct{}{}:
	case <-s.closing:
		return nil, &Error{}
	}
	defer func() { <-s.slots }()
	text, err := s.opts.Message(h.Node)
	if err != nil {
		return nil, &Error{Host: h.Name, Reason: err.Error()}
	}
	c, failed := s.run([]Host{h}, s.opts.agentCommand(h, program), nil)
	if failed != nil {
		return nil, failed
	}
	stop := time.AfterFunc(noticeAfter, func() {
		s.noteWaiting(h.Node, h.Name, c)
	})
	defer stop.Stop()
	greeting, failed := c.awaitGreeting(s.deadline)
	if failed == nil {
		failed = c.checkVersion(h.Name, greeting)
	}
	if failed == nil {
		if err := c.deliver(text, s.deadline); err != nil {
			failed = c.failed(err)
		}
	}
	if failed != nil {
		s.forget(c)
		return nil, failed
	}
	return c, nil
}

// supervise reports that a node is ready, then the lines that its command prints, and then its end.
func (s *Starts) supervise(h Host, c *command) {
	c.err.forward(func(line string) { s.pass(h.Node, h.Name, line) })
	in, out := c.detach()
	ended := make(chan *Error, 1)
	select {
	case s.events <- Event{Node: h.Node, Ready: &Ready{In: out, Out: in, Command: c.String(), Ended: ended}}:
	case <-s.closing:
		in.Close()
		out.Close()
	}
	failed := c.awaitEnd()
	ended <- failed
	s.forget(c)
	s.send(Event{Node: h.Node, Err: failed})
}

// startStep starts all nodes of a component of a Slurm job by srun, and waits until it has ended.
func (s *Starts) startStep(hosts []Host, group int) {
	text, err := s.opts.Message(0)
	if err != nil {
		s.send(Event{Err: &Error{Host: hostNames(hosts), Reason: err.Error()}})
		return
	}
	c, failed := s.run(hosts, s.opts.srunCommand(hosts, group), s.opts.srunVariables())
	if failed != nil {
		s.send(Event{Err: failed})
		return
	}
	began := time.Now()
	waiting := map[string]Host{}
	for _, h := range hosts {
		waiting[h.Name] = h
	}
	go func() { _ = c.deliver(text, s.deadline) }() // if it fails, srun has ended, or the time for joining is over
	stop := time.AfterFunc(noticeAfter, func() {
		s.noteWaiting(0, hostNames(hosts), c)
	})
	defer stop.Stop()
	for forwarded := false; ; {
		line, err := c.readLine()
		if err != nil {
			break
		}
		greeting, ok := protocol.DecodeGreeting(line)
		h, expected := waiting[greeting.Host]
		switch {
		case !ok || !expected:
			c.skip(line)
		default:
			delete(waiting, h.Name)
			if failed := c.checkVersion(h.Name, greeting); failed != nil {
				s.send(Event{Node: h.Node, Err: failed})
				continue
			}
			s.send(Event{Node: h.Node, Ready: &Ready{}})
		}
		if len(waiting) == 0 && !forwarded {
			forwarded = true
			stop.Stop()
			c.err.forward(func(line string) { s.pass(0, "", line) })
			if s.opts.Verbose {
				s.note(0, slog.LevelInfo, "srun has started ibrun", message.Attrs{PeerHost: hostNames(hosts),
					Text: fmt.Sprintf("srun has started ibrun on %s within %v", hostNames(hosts),
						time.Since(began).Round(time.Millisecond))})
			}
		}
	}
	failed = c.awaitEnd()
	s.forget(c)
	s.send(Event{Err: failed})
}

// run starts a command.
func (s *Starts) run(hosts []Host, words, env []string) (*command, *Error) {
	longest := maxLine
	if s.opts.JSON {
		longest = maxMessage
	}
	c, err := start(s.watcher, hosts, words, env, longest, s.opts.FailureGrace+lingerMargin)
	if err != nil {
		return nil, startError(hosts, words, err)
	}
	c.program = s.opts.Program
	s.mu.Lock()
	s.commands[c] = true
	s.mu.Unlock()
	select {
	case <-s.closing: // Close may not have seen it
		c.hangUp()
		c.running.Signal(syscall.SIGTERM)
	default:
	}
	if s.opts.Verbose {
		s.note(hosts[0].Node, slog.LevelInfo, "a command was started", message.Attrs{PeerHost: hostNames(hosts), Command: c.String(),
			Text: fmt.Sprintf("started: %s", c)})
	}
	return c, nil
}

// forget closes what is left of a command that has ended, or ends it.
func (s *Starts) forget(c *command) {
	c.hangUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.commands, c)
}
