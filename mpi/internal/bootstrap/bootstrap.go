// Package bootstrap finds out where a process stands: alone, or one of several that a launcher started.
//
// Package mpi initialises from a [Place]. Usually [Find] makes it from the environment; tests bring their own, with
// many places in one process.
package bootstrap

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/auto"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/mpi/internal/clocksync"
)

// Process is one process's position in a job, and its way to the launcher.
type Process struct {
	// Rank and Size are as in a communicator of all processes.
	Rank, Size int
	// AppNum is the number of this process's program among those of the job, and Universe how many processes the launcher
	// has room for; -1 where it does not tell.
	AppNum, UniverseSize int
	// Clock is the clock that this process reads. The zero Source stands for that of the machine.
	Clock clocksync.Source
	// Oversubscribed says that there are more processes than processors.
	Oversubscribed bool
	// Open opens the domain that connects the processes. Thresholds that are not 0 count more than the environment.
	Open func(ctx context.Context, cfg *fabric.Config, t Thresholds) (fabric.Domain, error)
	// Address returns what a process that has opened its domain tells others to connect by: nil if the launcher, which
	// then ends the job, has gone. It may be called once Open has returned, which makes it nil if no process has an address.
	Address func(peer int) []byte
	// Counters is memory that the launcher reads, in which the process may record what it does; nil if there is none.
	Counters []byte
	// Trace and Profile are memory in which the process writes down each of its operations, and profiles of itself, because the user
	// of the launcher has asked for that; nil: not so.
	Trace, Profile []byte
	// Nodes returns the number of each process's node, from 0, as far as the launcher tells.
	Nodes func() ([]int, error)
	// Psets are the process sets of the job besides those that every job has, in the same order everywhere. Sets of the same
	// name have no process in common. It may be called once Open has returned, and be nil for none.
	Psets func() ([]Pset, error)
	// NodeName is the name of this process's node: the launcher's, or that of the host.
	NodeName string
	// Hardware reads the machine under this process, and which of its PUs the threads of the process may use now.
	Hardware func() (*hw.Topology, []int, error)
	// Report is told, in one line, what the user should know and no call fails for. It may be nil, and never fails.
	Report func(text string)
	// Started tells the launcher that the process has initialised.
	Started func() error
	// Finalized tells the launcher that the process may end from now on. It is called once.
	Finalized func() error
	// Abort ends the job. It returns only where several places share a process.
	Abort func(code int, why string) error
}

// Thresholds are lengths that decide how messages travel.
type Thresholds = auto.Thresholds

// FromEnv asks the environment. A process without a launcher is a world of one.
func FromEnv(ctx context.Context) (*Process, error) {
	client, err := pmi.FromEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return singleton(), nil
	}
	link, hello, err := ranklink.FromEnv(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("talk to ibrun: %w", err)
	}
	b := &kvs{client: client, hello: hello}
	p := &Process{Rank: client.Rank(), Size: client.Size(), Address: b.address, Nodes: b.nodes, Psets: b.psets, Hardware: Machine}
	if p.AppNum, err = client.AppNum(); err != nil {
		return nil, err
	}
	if p.UniverseSize, err = client.UniverseSize(); err != nil {
		return nil, err
	}
	p.NodeName = nodeName(hello)
	node, err := nodeOf(ctx, client, hello)
	if err != nil {
		return nil, err
	}
	if err := node.FromEnv(os.Getenv); err != nil {
		return nil, err
	}
	p.Report = reporter(link, p.Rank)
	if node.Local[0] == p.Rank { // what holds for a node is said once
		node.Report = p.Report
	}
	if err := p.mapPages(hello); err != nil && node.Report != nil {
		// A job does not fail for want of onlookers.
		node.Report(fmt.Sprintf("nobody can look on at what rank %d does: %v", hello.Rank, err))
	}
	p.Oversubscribed, err = oversubscribed(hello, len(node.Local))
	if err != nil {
		return nil, err
	}
	p.Open = func(ctx context.Context, cfg *fabric.Config, t Thresholds) (fabric.Domain, error) {
		node.Set(t)
		d, err := auto.Open(ctx, cfg, node)
		if err != nil {
			return nil, err
		}
		if addr := d.Addr(); addr == nil {
			p.Address = nil
		} else {
			err = b.publish(ctx, addr)
		}
		if err == nil && node.Report != nil && hello != nil && verbose() {
			err = reportTransports(node, hello.Node, d, b)
		}
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return d, nil
	}
	p.setCallbacks(link, b)
	return p, nil
}

// setCallbacks lets the launcher know how the process fares.
func (p *Process) setCallbacks(link *ranklink.Link, b *kvs) {
	p.Started = func() error {
		if link != nil {
			go serveStackRequests(link) // ends when ibrun or the process does
		}
		return notify(link, ranklink.KindStarted)
	}
	p.Finalized = func() error {
		if err := notify(link, ranklink.KindFinalized); err != nil {
			return err
		}
		return b.finalize()
	}
	p.Abort = func(code int, why string) error {
		// The launcher kills this process; leaving does the same where it is slow to, or gone.
		_ = b.abort(code, why)
		os.Exit(exitCode(code))
		return nil
	}
}

// exitCode is the code of an aborted process, which is never taken for a success: the system keeps the last 8 bits.
func exitCode(code int) int {
	if code&0xff == 0 {
		return 1
	}
	return code
}

// notify lets ibrun know where the process is, if ibrun started it.
func notify(link *ranklink.Link, kind ranklink.Kind) error {
	if link == nil {
		return nil
	}
	return link.Send(kind, nil)
}

// reporter returns a way to the user: a note to ibrun, which shows it with the number of the rank, or else standard error.
func reporter(link *ranklink.Link, rank int) func(text string) {
	if link == nil {
		return func(text string) { fmt.Fprintf(os.Stderr, "ibrun: rank %d: %s\n", rank, text) }
	}
	return func(text string) { _ = link.Send(ranklink.KindNote, ranklink.Note{Text: text}) } // ibrun has gone, or shows it
}

func singleton() *Process {
	nothing := func() error { return nil }
	return &Process{
		Size: 1, AppNum: -1, UniverseSize: -1,
		Open: func(ctx context.Context, cfg *fabric.Config, t Thresholds) (fabric.Domain, error) {
			return auto.Open(ctx, cfg, auto.Node{Local: []int{0}, Thresholds: t})
		},
		Address:  func(int) []byte { return nil },
		Nodes:    func() ([]int, error) { return []int{0}, nil },
		NodeName: HostName(),
		Hardware: Machine,
		Psets: func() ([]Pset, error) {
			return listPsets([]int{0}, []locality{ownLocality(0)}, nil), nil
		},
		Report:    reporter(nil, 0),
		Started:   nothing,
		Finalized: nothing,
		Abort: func(code int, why string) error {
			fmt.Fprintln(os.Stderr, why)
			os.Exit(exitCode(code))
			return nil
		},
	}
}

// nodeName is the name that ibrun has for the node, or that of the host.
func nodeName(hello *ranklink.Hello) string {
	if hello != nil && hello.NodeName != "" {
		return hello.NodeName
	}
	return HostName()
}

// nodeOf finds the processes of this node and the job's secret. ibrun tells both; under another launcher the first
// process draws the secret and puts it where only the job looks.
func nodeOf(ctx context.Context, c *pmi.Client, hello *ranklink.Hello) (auto.Node, error) {
	if hello != nil {
		if hello.Nodes > 1 && hello.LocalRank == 0 {
			if err := publishLocality(c, helloLocality(hello)); err != nil {
				return auto.Node{}, err
			}
		}
		return auto.Node{Local: hello.NodeRanks, Key: hello.Secret, Tracer: hello.AgentPID, Devices: hello.Devices}, nil
	}
	n := auto.Node{Tracer: os.Getppid()}
	err := publishLocality(c, ownLocality(c.Rank()))
	if err != nil || c.Size() == 1 {
		n.Local = []int{0}
		return n, err
	}
	if n.Local, err = c.NodeRanks(); err != nil {
		return n, fmt.Errorf("ask the launcher which processes share this node: %w", err)
	}
	n.Key, err = sharedSecret(ctx, c)
	return n, err
}

const secretKey = "ibrun-key"

func sharedSecret(ctx context.Context, c *pmi.Client) (key [32]byte, err error) {
	if c.Rank() == 0 {
		rand.Read(key[:])
		if err := c.Put(secretKey, hex.EncodeToString(key[:])); err != nil {
			return key, fmt.Errorf("give the job's secret to the launcher: %w", err)
		}
	}
	if err := c.Barrier(ctx); err != nil {
		return key, fmt.Errorf("wait for the other processes: %w", err)
	}
	text, err := c.Get(secretKey)
	if err != nil {
		return key, fmt.Errorf("get the job's secret from the launcher: %w", err)
	}
	if n, err := hex.Decode(key[:], []byte(text)); err != nil || n != len(key) {
		return key, fmt.Errorf("the launcher's key-value space holds no secret under %s", secretKey)
	}
	return key, nil
}

// oversubscribed tells whether the processes of this node have fewer processors than they are. Of bound ones ibrun says it.
// Another launcher's binding shows as a mask that lacks some of the machine's processors; launchers that bind do so apart.
func oversubscribed(hello *ranklink.Hello, local int) (bool, error) {
	if hello != nil && (hello.Crowded || len(hello.Cores) != 0) {
		return hello.Crowded, nil
	}
	allowed, err := hw.Affinity()
	if err != nil {
		return false, err
	}
	if top, err := hw.Read(os.DirFS("/"), hw.OnlyPUs); hello == nil && err == nil && len(allowed) < len(top.PUs) {
		return false, nil
	}
	return local > len(allowed), nil
}
