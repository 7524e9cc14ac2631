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
	ready   chan struct{} // closed when the agent has said hello
	hello   sync.Once
}

func startNode(number int, c qemu.Config, cable *os.File) (*node, error) {
	m, err := qemu.Start(c, cable)
	if err != nil {
		return nil, err
	}
	return &node{number: number, machine: m, session: mux.NewSession(m.Channel, mux.Host), ready: make(chan struct{})}, nil
}

// serve answers what the guest asks for: to run something on one of the nodes.
func (n *node) serve(nodes []*node) {
	for {
		stream, err := n.session.Accept()
		if err != nil {
			return // whoever uses the session hears of it
		}
		go func() {
			switch c, err := mux.Receive(stream); {
			case err != nil:
				stream.Close()
			case c == nil:
				n.hello.Do(func() { close(n.ready) })
				stream.Close()
			default:
				relay(stream, *c, nodes)
			}
		}()
	}
}

// relay connects who asks with the node that answers.
func relay(from *mux.Stream, c mux.Command, nodes []*node) {
	refuse := func(err error) {
		// If this fails, who asked is gone.
		_ = mux.Serve(from).Exit(codeFailed, err)
	}
	if c.Node < 0 || c.Node >= len(nodes) {
		refuse(fmt.Errorf("there is no node %d; -nodes says how many there are", c.Node))
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

// awaitReady waits until the guest is up.
func (n *node) awaitReady(ctx context.Context) error {
	select {
	case <-n.ready:
		return nil
	case <-n.machine.Done():
		return n.broken("did not come up")
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), n.broken("did not come up"))
	}
}

// run runs a command to its end.
func (n *node) run(ctx context.Context, c mux.Command, io streams) (code int, err error) {
	stream, err := n.session.Open()
	if err != nil {
		return codeFailed, n.lost()
	}
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	code, err = mux.Run(stream, c, io.in, io.out, io.err)
	if ctx.Err() != nil {
		return codeFailed, n.complaint()
	}
	if code >= 0 {
		return code, err // of the command, whatever the guest did since
	}
	select {
	case <-n.session.Done():
		return codeFailed, n.lost()
	default:
		return codeFailed, err
	}
}

// lost explains the end of the channel, which comes shortly before the end of the machine.
func (n *node) lost() error {
	select {
	case <-n.machine.Done():
	case <-time.After(10 * time.Second): // then it will not end by itself, and the console has to do
	}
	return n.broken("broke down")
}

// broken is the error for a guest that does not do what it should, with the reason as far as its console tells.
func (n *node) broken(what string) error {
	console := n.machine.Console()
	if panicked := qemu.Panic(console); panicked != "" {
		what += ": " + panicked
	}
	return fmt.Errorf("node %d %s%s", n.number, what, quote(console))
}

// complaint is what the console said, if it said anything.
func (n *node) complaint() error {
	if console := quote(n.machine.Console()); console != "" {
		return fmt.Errorf("node %d%s", n.number, console)
	}
	return nil
}

// quote returns the end of a console for an error.
func quote(console string) string {
	const most = 40
	all := strings.Split(strings.TrimSpace(console), "\n")
	if all[0] == "" {
		return ""
	}
	all = all[max(0, len(all)-most):]
	return "; the end of its console:\n\t" + strings.Join(all, "\n\t")
}
