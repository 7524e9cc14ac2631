// Pingpong sends a message back and forth between two machines over RDMA and prints how long that took. It is an introduction
// to package verbs: this file is the program, endpoint.go creates the queue pairs, handshake.go exchanges their addresses with
// the peer, and exchange.go sends and receives the messages.
//
//	pingpong               waits for the other side
//	pingpong HOST          connects to it
//
// Either side may be rdma-core's ibv_rc_pingpong instead, or its variants for uc, ud and srq (-t). On RoCE the C programs need
// the index of the GID, as in ibv_rc_pingpong -g 1. Both sides need the same -t, -s, -n, -m and -q.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/ibrun/ibrun/verbs"
)

// options are the command line. They are named like the flags of the C programs.
type options struct {
	kind    string // rc, uc, ud or srq
	host    string // of the server; "" makes this side the server
	tcpPort int

	device string
	port   int
	gid    int // index; -1: package verbs chooses one
	mtu    int

	size, iters, depth, pairs int
	events, check             bool
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	// Ctrl-C cancels the context, which ends every wait below. Closing the device then frees everything.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err = run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		os.Exit(1)
	}
}

// parse parses the command line. It has printed every error that it returns.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("pingpong", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, "usage: pingpong [flags]         wait for the other side\n"+
			"       pingpong [flags] HOST    connect to it\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.kind, "t", "rc", "`transport`: rc, uc, ud, or srq for rc with a shared receive queue")
	f.StringVar(&o.device, "d", "", "RDMA `device` (default the first that works)")
	f.IntVar(&o.port, "i", 0, "`port` of the device (default the first that is active)")
	f.IntVar(&o.gid, "g", -1, "`index` of the GID to use (default: RoCE v2, in this network namespace, IPv4 preferred)")
	f.IntVar(&o.mtu, "m", 1024, "path MTU in `bytes`, not with ud")
	f.IntVar(&o.tcpPort, "p", 18515, "TCP `port` for the handshake")
	f.IntVar(&o.size, "s", 0, "size of the message in `bytes` (default 4096; with ud 2048, at most the MTU of the port)")
	f.IntVar(&o.iters, "n", 1000, "how `many` round trips")
	f.IntVar(&o.depth, "r", 64, "how `many` receives to post")
	f.IntVar(&o.pairs, "q", 16, "with srq: how `many` queue pairs")
	f.BoolVar(&o.events, "e", false, "sleep until there is a completion, instead of polling")
	f.BoolVar(&o.check, "c", false, "check the bytes that arrive; a C program on the other side needs -c as well")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.host = f.Arg(0)
	if o.kind != "srq" {
		o.pairs = 1
	}
	if err := o.validate(f.NArg()); err != nil {
		fmt.Fprintln(stderr, "pingpong:", err)
		return o, err
	}
	return o, nil
}

func (o *options) validate(args int) error {
	switch {
	case args > 1:
		return errors.New("one host at most")
	case o.transport() == 0:
		return fmt.Errorf("-t %s: it is rc, uc, ud or srq", o.kind)
	case o.pathMTU() == 0:
		return fmt.Errorf("-m %d: it is 256, 512, 1024, 2048 or 4096", o.mtu)
	case o.size < 0 || o.iters < 1 || o.pairs < 1:
		return errors.New("-s must not be negative, and -n and -q must be at least 1")
	case o.pairs > srqLines:
		return fmt.Errorf("-q %d: at most %d", o.pairs, srqLines)
	case o.depth < o.pairs:
		return fmt.Errorf("-r %d: need at least one receive for each of the %d queue pairs", o.depth, o.pairs)
	}
	return nil
}

func (o *options) transport() verbs.QPType {
	return map[string]verbs.QPType{"rc": verbs.RC, "srq": verbs.RC, "uc": verbs.UC, "ud": verbs.UD}[o.kind]
}

func (o *options) pathMTU() verbs.MTU {
	for m := verbs.MTU256; m <= verbs.MTU4096; m++ {
		if m.Bytes() == o.mtu {
			return m
		}
	}
	return 0
}

// lines returns how many addresses each side sends.
func (o *options) lines() int {
	if o.kind == "srq" {
		return srqLines
	}
	return o.pairs
}

// run runs the program.
func run(ctx context.Context, out io.Writer, o options) error {
	// The options of Open select how the device is accessed. The zero value works for every device.
	dev, err := verbs.Open(o.device, verbs.Options{})
	if err != nil {
		return err
	}
	defer dev.Close() // and with it everything that is created from it below
	if o.size == 0 {
		if o.size, err = defaultSize(dev, o); err != nil {
			return err
		}
	}
	e, err := open(dev, o)
	if err != nil {
		return err
	}
	conn, err := dial(ctx, o)
	if err != nil {
		return fmt.Errorf("connect to the other side: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	remote, err := handshake(conn, o.host == "", o.lines(), e.local, e.connect)
	stop()
	conn.Close()
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	for i, a := range e.local {
		fmt.Fprintf(out, "  local address:  %s\n  remote address: %s\n", describe(a), describe(remote[i]))
	}

	start := time.Now()
	if err := e.exchange(ctx); err != nil {
		return fmt.Errorf("after %d of %d messages: %w", e.received, o.iters, err)
	}
	took := time.Since(start).Seconds()
	bytes := 2 * o.size * o.iters
	_, err = fmt.Fprintf(out, "%d bytes in %.2f seconds = %.2f Mbit/sec\n%d iters in %.2f seconds = %.2f usec/iter\n",
		bytes, took, float64(bytes)*8/1e6/took, o.iters, took, took*1e6/float64(o.iters))
	return err
}

// defaultSize returns the default size of a message, which is that of the C programs. A datagram is at most one packet.
func defaultSize(dev *verbs.Context, o options) (int, error) {
	if o.kind != "ud" {
		return 4096, nil
	}
	port, err := dev.QueryPort(max(o.port, 1))
	return min(2048, port.ActiveMTU.Bytes()), err
}
