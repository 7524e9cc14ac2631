package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ibrun/ibrun/soft-roce/vm/internal/mux"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/qemu"
)

// node is a guest that was started.
type node struct {
	number  int
	machine *qemu.Machine
	session *mux.Session
	ready   chan struct{} // closed when the agent has reported that the guest is up
	isReady sync.Once
}

func startNode(number int, c qemu.Config, wire *os.File) (*node, error) {
	m, err := qemu.Start(c, wire)
	if err != nil {
		return nil, err
	}
	return &node{number: number, machine: m, session: mux.NewSession(m.Channel, mux.Host), ready: make(chan struct{})}, nil
}

// serve accepts the streams of the guest: its ready message, and requests to run a command on a node.
func (n *node) serve(nodes []*node) {
	for {
		stream, err := n.session.Accept()
		if err != nil {
			return // other users of the session get the error too
		}
		go func() {
			switch c, err := mux.Receive(stream); {
			case err != nil:
				stream.Close()
			case c == nil:
				n.isReady.Do(func() { close(n.ready) })
				stream.Close()
			default:
				forwardCommand(stream, *c, nodes)
			}
		}()
	}
}

// forwardCommand sends a command to its node and connects the two streams.
func forwardCommand(from *mux.Stream, c mux.Command, nodes []*node) {
	refuse := func(err error) {
		// If this fails, the sender of the command has ended.
		_ = mux.Serve(from).Exit(codeFailed, err)
	}
	if c.Node < 0 || c.Node >= len(nodes) {
		refuse(fmt.Errorf("no node %d: -nodes sets the number of nodes", c.Node))
		return
	}
	to, err := nodes[c.Node].session.Open()
	if err == nil {
		err = mux.SendCommand(to, c)
	}
	if err != nil {
		refuse(fmt.Errorf("node %d does not answer: %w", c.Node, err))
		return
	}
	mux.Join(from, to)
}

// awaitReady blocks until the guest is up.
func (n *node) awaitReady(ctx context.Context) error {
	select {
	case <-n.ready:
		return nil
	case <-n.machine.Done():
		return n.failure("did not come up")
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), n.failure("did not come up"))
	}
}

// run runs a command to its end.
func (n *node) run(ctx context.Context, c mux.Command, io streams) (code int, err error) {
	stream, err := n.session.Open()
	if err != nil {
		return codeFailed, n.channelLost()
	}
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	code, err = mux.Run(stream, c, io.in, io.out, io.err)
	if ctx.Err() != nil {
		return codeFailed, n.consoleError()
	}
	if code >= 0 {
		return code, err // the exit code of the command, even if the guest failed since
	}
	select {
	case <-n.session.Done():
		return codeFailed, n.channelLost()
	default:
		return codeFailed, err
	}
}

// channelLost returns the error for the end of the channel, which is shortly before the end of the machine.
func (n *node) channelLost() error {
	select {
	case <-n.machine.Done():
	case <-time.After(10 * time.Second): // the machine does not end by itself: use what is on the console
	}
	return n.failure("failed")
}

// failure returns the error for a failed guest, with a kernel panic and the end of its console.
func (n *node) failure(what string) error {
	console := n.machine.Console()
	if panicked := qemu.Panic(console); panicked != "" {
		what += ": " + panicked
	}
	return fmt.Errorf("node %d %s%s", n.number, what, consoleTail(console))
}

// consoleError returns the end of the console as an error, or nil if the console is empty.
func (n *node) consoleError() error {
	if console := consoleTail(n.machine.Console()); console != "" {
		return fmt.Errorf("node %d%s", n.number, console)
	}
	return nil
}

// consoleTail returns the last lines of a console for an error message, or "" if there are none.
func consoleTail(console string) string {
	const most = 40
	all := strings.Split(strings.TrimSpace(console), "\n")
	if all[0] == "" {
		return ""
	}
	all = all[max(0, len(all)-most):]
	return "; the end of its console:\n\t" + strings.Join(all, "\n\t")
}
