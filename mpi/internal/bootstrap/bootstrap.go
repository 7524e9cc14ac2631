// Package bootstrap provides what a process of MPI must know to start: its rank, the size of the job, the addresses of the
// other processes, and the connection to the launcher.
//
// Package mpi initialises from a [Process]. Usually [FromEnv] creates it from the environment of the process. Tests pass their
// own by [WithProcess], and can thus have many in one process of the system.
package bootstrap

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/auto"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/mpi/internal/clocksync"
)

// Process describes one process of a job and its connection to the launcher.
type Process struct {
	// Rank and Size are those in World.
	Rank, Size int
	// AppNum is the index of this process's program among those of the job. UniverseSize is the number of processes for which
	// the launcher has room. They are -1 if the launcher does not provide them.
	AppNum, UniverseSize int
	// Clock is the clock that this process reads. The zero Source means the machine's clock.
	Clock clocksync.Source
	// Oversubscribed says that there are more processes than processors.
	Oversubscribed bool
	// NUMA is the number of the NUMA node to which this process is bound, or of the only one of the machine; -1: neither.
	NUMA int
	// Poll is how long a goroutine that waits polls before it sleeps, unless the environment says that; nil: for some yields.
	Poll *time.Duration
	// Open opens the domain that connects the processes. Thresholds that are not 0 override the environment.
	Open func(ctx context.Context, cfg *fabric.Config, t Thresholds) (fabric.Domain, error)
	// Address returns the address of a process that has opened its domain; nil if the connection to the launcher is lost, which
	// ends the job. It may be called after Open has returned. Open sets it to nil if the processes have no addresses.
	Address func(peer int) []byte
	// Counters is memory that the launcher reads, in which the process may record its calls; nil if there is none.
	Counters []byte
	// Trace and Profile are memory in which the process records each of its operations, and profiles of itself. They are nil
	// unless the user has asked the launcher for them.
	Trace, Profile []byte
	// Nodes returns the number of each process's node, from 0, as the launcher defines it.
	Nodes func() ([]int, error)
	// Psets returns the process sets of the job except those that every job has, in the same order in all processes. Sets with
	// the same name have no process in common. It may be called after Open has returned. It may be nil.
	Psets func() ([]Pset, error)
	// NodeName is the name of this process's node: the launcher's name for it, or the host name.
	NodeName string
	// Hardware returns the topology of the machine, and the PUs on which the threads of the process may run now.
	Hardware func() (*hw.Topology, []int, error)
	// Report shows the user a warning of one line, for a problem that makes no call fail. It may be nil.
	Report func(text string)
	// Left is set by the user of the Process before Started: it is called with the ranks of processes that have left the job, if
	// the launcher reports them. It may be called from any goroutine.
	Left func(ranks []int)
	// Started reports to the launcher that the process has initialised.
	Started func() error
	// Finalized reports to the launcher that the process may exit from now on. It is called once.
	Finalized func() error
	// Abort ends the job. It returns only if several Processes share a process of the system.
	Abort func(code int, why string) error
}

// Thresholds are message lengths that select the protocol.
type Thresholds = auto.Thresholds

// FromEnv returns the Process that the environment describes. A process without a launcher is a world of one.
func FromEnv(ctx context.Context) (*Process, error) {
	client, err := connect(os.Getenv)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return singleton(), nil
	}
	link, info, err := ranklink.FromEnv(os.Getenv)
	if err = cmp.Or(err, checkInfo(info, client.Rank(), client.Size())); err != nil {
		return nil, fmt.Errorf("connect to ibrun: %w", err)
	}
	b := &kvs{client: client, info: info, own: nodeInfoOf(info, client.Rank())}
	p := &Process{Rank: client.Rank(), Size: client.Size(), Address: b.address, Nodes: b.nodes, Psets: b.psets, Hardware: Machine}
	if p.AppNum, err = client.AppNum(); err != nil {
		return nil, err
	}
	if p.UniverseSize, err = client.UniverseSize(); err != nil {
		return nil, err
	}
	node, err := nodeOf(ctx, client, info, b.own)
	if err != nil {
		return nil, err
	}
	if err := node.FromEnv(os.Getenv); err != nil {
		return nil, err
	}
	var server *linkServer
	if link != nil {
		server = newLinkServer(link, p, info)
		go server.run() // ends when ibrun or this process ends
	}
	if info != nil && info.Sockets {
		node.Sockets = server.sockets
	}
	b.local, p.NodeName, p.NUMA, p.Report = node.Local, nodeName(info), b.own.numa(p.Rank), reporter(link, p.Rank, false)
	if node.Local[0] == p.Rank { // problems of a node are reported once
		node.Report = p.Report
	}
	node.Address, node.ReportPeer = b.address, oncePerNode(b.nodes, p.Report, onceReporter(link, p.Rank))
	if err := p.mapPages(info); err != nil && node.Report != nil {
		// A job can run without being monitored.
		node.Report(fmt.Sprintf("cannot monitor rank %d: %v", info.Rank, err))
	}
	if p.Oversubscribed, err = oversubscribed(info, len(node.Local)); err != nil {
		return nil, err
	}
	node.SharedCores = p.Oversubscribed
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
		if err == nil && node.Report != nil && info != nil && verbose() {
			err = reportTransports(node, reporter(link, p.Rank, true), info.Node, d, b)
		}
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return d, nil
	}
	p.setCallbacks(link, server, b)
	return p, nil
}

// checkInfo returns an error if the RankInfo of ibrun is for another process than the one that a launcher has started as this
// rank.
func checkInfo(info *ranklink.RankInfo, rank, size int) error {
	if info == nil || info.Rank == rank && info.Size == size {
		return nil
	}
	return fmt.Errorf("IBRUN_FD is for rank %d of %d, but a launcher has started this process as rank %d of %d. "+
		"A program that is started by a rank needs IBRUN_FD unset", info.Rank, info.Size, rank, size)
}

// setCallbacks sets the functions that report the state of the process to the launcher.
func (p *Process) setCallbacks(link *ranklink.Link, server *linkServer, b *kvs) {
	p.Started = func() error {
		if server != nil {
			close(server.started)
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
		// The launcher kills this process. It exits by itself in case the launcher is slow or has ended.
		_ = b.abort(code, why)
		os.Exit(exitCode(code))
		return nil
	}
}

// exitCode returns the exit code of an aborted process, which must not look like success: the system keeps only the
// last 8 bits.
func exitCode(code int) int {
	if code&0xff == 0 {
		return 1
	}
	return code
}

// notify reports the state of the process to ibrun, if ibrun started it.
func notify(link *ranklink.Link, kind ranklink.Kind) error {
	if link == nil {
		return nil
	}
	return link.Send(kind, nil)
}

// reporter returns a function that shows a text to the user: by a note to ibrun, which adds the rank, or else on
// standard error. info says that the texts are about what the rank does, and no warnings.
func reporter(link *ranklink.Link, rank int, info bool) func(text string) {
	if link == nil {
		return func(text string) { fmt.Fprintf(os.Stderr, "ibrun: rank %d: %s\n", rank, text) }
	}
	return func(text string) {
		_ = link.Send(ranklink.KindNote, ranklink.Note{Text: text, Info: info}) // it fails only if ibrun has ended
	}
}

// onceReporter returns a function like that of [reporter]. Of the texts of the ranks of a node about the same, ibrun shows the
// first.
func onceReporter(link *ranklink.Link, rank int) func(about, text string) {
	if link == nil {
		report := reporter(link, rank, false)
		return func(_, text string) { report(text) }
	}
	return func(about, text string) {
		_ = link.Send(ranklink.KindNote, ranklink.Note{Text: text, Once: about}) // it fails only if ibrun has ended
	}
}

// singleton returns the Process of a world of one.
func singleton() *Process {
	nothing := func() error { return nil }
	return &Process{
		Size: 1, AppNum: -1, UniverseSize: -1, NUMA: -1,
		Open: func(ctx context.Context, cfg *fabric.Config, t Thresholds) (fabric.Domain, error) {
			return auto.Open(ctx, cfg, auto.Node{Local: []int{0}, Thresholds: t})
		},
		Address:  func(int) []byte { return nil },
		Nodes:    func() ([]int, error) { return []int{0}, nil },
		NodeName: HostName(),
		Hardware: Machine,
		Psets: func() ([]Pset, error) {
			return listPsets([]int{0}, []nodeInfo{ownNodeInfo(0)}, nil), nil
		},
		Report:    reporter(nil, 0, false),
		Started:   nothing,
		Finalized: nothing,
		Abort: func(code int, why string) error {
			fmt.Fprintln(os.Stderr, why)
			os.Exit(exitCode(code))
			return nil
		},
	}
}

// nodeName returns ibrun's name for the node, or the host name.
func nodeName(info *ranklink.RankInfo) string {
	if info != nil && info.NodeName != "" {
		return info.NodeName
	}
	return HostName()
}

// nodeOf returns the processes of this node and the job's secret. ibrun provides both. Under another launcher rank 0
// generates the secret and stores it in the key-value space, which only the job can read. own is the result of nodeInfoOf.
func nodeOf(ctx context.Context, c launcher, info *ranklink.RankInfo, own nodeInfo) (auto.Node, error) {
	if info != nil {
		if info.Nodes > 1 && info.LocalRank == 0 {
			if err := publishNodeInfo(c, own); err != nil {
				return auto.Node{}, err
			}
		}
		return auto.Node{Local: info.NodeRanks, Key: info.Secret, Tracer: info.AgentPID, Devices: info.Devices}, nil
	}
	n := auto.Node{Tracer: os.Getppid()}
	err := publishNodeInfo(c, own)
	if err != nil || c.Size() == 1 {
		n.Local = []int{0}
		return n, err
	}
	if n.Local, err = c.NodeRanks(); err != nil {
		return n, fmt.Errorf("get the processes of this node from the launcher: %w", err)
	}
	if err := c.Put(placeKey, []byte(place())); err != nil {
		return n, fmt.Errorf("publish where this process can meet others: %w", err)
	}
	if n.Key, err = sharedSecret(ctx, c); err == nil {
		n.Local, err = together(c, n.Local)
	}
	return n, err
}

// The keys under which processes put what place returns, and rank 0 the secret of the job.
const (
	placeKey  = "ibrun-place"
	secretKey = "ibrun-key"
)

// together returns those of the processes that can meet this one. A launcher may take containers for one node that share no
// folder, and Slurm's mapping may be wrong. The others are reached as if they were on other nodes.
func together(c launcher, ranks []int) ([]int, error) {
	var kept []int
	places := map[int]string{}
	for _, rank := range ranks {
		text, err := c.Get(rank, placeKey)
		if err != nil {
			return nil, fmt.Errorf("get where process %d can meet others: %w", rank, err)
		}
		places[rank] = string(text)
	}
	for _, rank := range ranks {
		if places[rank] == places[c.Rank()] {
			kept = append(kept, rank)
		}
	}
	return kept, nil
}

// sharedSecret returns the secret that rank 0 generates for the job.
func sharedSecret(ctx context.Context, c launcher) (key [32]byte, err error) {
	if c.Rank() == 0 {
		rand.Read(key[:])
		if err := c.Put(secretKey, key[:]); err != nil {
			return key, fmt.Errorf("store the job's secret at the launcher: %w", err)
		}
	}
	if err := c.Barrier(ctx); err != nil {
		return key, fmt.Errorf("wait for the other processes: %w", err)
	}
	secret, err := c.Get(0, secretKey)
	if err != nil {
		return key, fmt.Errorf("get the job's secret from the launcher: %w", err)
	}
	if copy(key[:], secret) != len(secret) || len(secret) != len(key) {
		return key, fmt.Errorf("the launcher has %d bytes under %s; the secret of a job has %d", len(secret), secretKey, len(key))
	}
	return key, nil
}

// oversubscribed reports whether this node has fewer processors than processes. For bound processes ibrun provides
// the answer. Binding by another launcher is recognized by a mask that lacks some of the machine's processors; such
// launchers give each process processors of its own.
func oversubscribed(info *ranklink.RankInfo, local int) (bool, error) {
	if info != nil && (info.Oversubscribed || len(info.Cores) != 0) {
		return info.Oversubscribed, nil
	}
	allowed, err := hw.Affinity()
	if err != nil {
		return false, err
	}
	if top, err := hw.Read(os.DirFS("/"), hw.OnlyPUs); info == nil && err == nil && len(allowed) < len(top.PUs) {
		return false, nil
	}
	return local > len(allowed), nil
}
