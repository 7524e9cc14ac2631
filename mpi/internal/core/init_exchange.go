package core

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"slices"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/clocksync"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// Words of the information that every process sends at initialisation.
const (
	infoClock  = iota // which source it has
	infoKernel        // which kernel
	infoHost          // which host name
	infoHashes
	infoHostName = infoHashes
	infoWords    = infoHashes + maxHostName/8
)

// maxHostName is the maximum length of a host name in bytes, a multiple of 8. It is the limit of
// Linux.
const maxHostName = 64

// environment is what a process has learned about its machine and about the other processes at
// initialisation.
type environment struct {
	bootID   string // id of the running kernel; "" if the system has none
	host     string // host name of this process
	nodeHost string // host name that ProcessorName uses for all processes of this kernel
	ioRank   int    // value of the attribute IO
}

// exchangeAtInit lets the processes compare their environments. It uses a temporary communicator,
// for which sharing memory would not pay. ctx bounds the wait.
func (p *Process) exchangeAtInit(ctx context.Context, op string) error {
	stop := context.AfterFunc(ctx, func() { p.engine.Processes().Abort(context.Cause(ctx)) })
	defer stop()
	c := p.newComm(firstNumbers[int32](p.boot.Size), p.boot.Rank)
	c.freeing.Store(true) // a process that has finished the exchange may leave the job
	c.activate(initID << 1)
	return c.releaseAfter(p.compareProcesses(c), op, commFreed)
}

// compareProcesses checks whether all processes have the same clock, kernel and host name. If not,
// they exchange the details.
func (p *Process) compareProcesses(c *Comm) (err error) {
	v := &p.env
	if err := p.clocks.Init(p.boot.Clock, p.engine); err != nil {
		return err
	}
	if v.host, err = os.Hostname(); err != nil {
		return err
	}
	v.nodeHost = v.host
	if v.bootID, err = hw.BootID(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mine := [infoHashes]uint64{p.clocks.Clock.Source().ID, clocksync.Hash(v.bootID), clocksync.Hash(v.host)}
	if alike, err := p.reduceProcessInfo(c, mine, probeIO() == nil); err != nil || alike {
		return err
	}
	// Most jobs run on one machine, where the short reduction above is enough. Only others exchange
	// the details.
	all, err := gatherProcessInfo(&c.coll.main, v.host, mine)
	if err != nil {
		return err
	}
	kernel := slices.IndexFunc(all, func(x [infoWords]uint64) bool { return x[infoKernel] == mine[infoKernel] })
	v.nodeHost = hostNameOf(all[kernel])
	sources := make([]uint64, len(all))
	for i, x := range all {
		sources[i] = x[infoClock]
	}
	sameKernel := kernel == 0 && v.bootID != "" && p.boot.Clock.Now == nil
	return p.clocks.Begin(&c.coll.main, sources, sameKernel)
}

var errCheckDiffers = errors.New("some processes check their calls, and others do not: " +
	"give every ibrun of the job the same --check, or every process the same IBRUN_CHECK")

var errTableDiffers = errors.New("the tables of collectives of the processes differ: give every process the same " +
	coll.TableVariable)

// reduceProcessInfo determines the value of IO, and whether all processes have sent the same info.
// able reports whether this process offers I/O.
func (p *Process) reduceProcessInfo(c *Comm, mine [infoHashes]uint64, able bool) (alike bool, err error) {
	self, n := p.boot.Rank, p.boot.Size
	first, every := n, uint8(0)
	if able {
		first, every = self, 1
	}
	words := []uint64{uint64(first), uint64(every)}
	for _, x := range mine {
		words = append(words, x, ^x) // the minima of x and ^x give the minimum and the maximum of x
	}
	check := len(words) // 0 if any process does not check calls, followed by 0 if any does
	words = append(words, 1, 0)
	if !p.check {
		words[check], words[check+1] = 0, 1
	}
	var table uint64
	if p.table != nil {
		table = p.table.Hash
	}
	words = append(words, table, ^table)
	var nodes uint64
	p.nodes, nodes = nodesOf(p.boot)
	words = append(words, nodes, ^nodes)
	if n > 1 {
		least, commutative, _ := Min.kernel(Elements{kind: datatype.Uint64})
		op := coll.Operation{Kernel: least, ElemSize: 8, Commutative: commutative}
		if err := coll.AllreduceTree(&c.coll.main, Bytes(words), slices.Clone(Bytes(words)), &op); err != nil {
			return false, err
		}
	}
	// The first is 1 if all processes check, and the second 1 if none does. Both are 0 if some do.
	if words[check] == words[check+1] {
		return false, errCheckDiffers
	}
	if words[check+2] != ^words[check+3] {
		return false, errTableDiffers
	}
	if words[check+4] != ^words[check+5] {
		// Not an error: the algorithms on one level are right everywhere, if all processes use
		// them.
		p.nodes = nil
	}
	p.env.ioRank = ioAttribute(self, n, int(words[0]), able, words[1] == 1)
	alike = true
	for i := range mine {
		alike = alike && words[2+2*i] == ^words[3+2*i]
	}
	return alike, nil
}

// nodesOf returns the number of the node of each process as this one knows it, and a hash of that.
// The numbers are nil if they are of no use to collectives. A launcher need not know the nodes, and
// what it says may differ between processes: then algorithms on two levels are not used.
func nodesOf(boot *bootstrap.Process) (of []int32, hash uint64) {
	nodes, err := boot.Nodes()
	if err != nil || len(nodes) != boot.Size {
		return nil, 0
	}
	h := fnv.New64a()
	var b [4]byte
	for _, n := range nodes {
		of = append(of, int32(n))
		binary.LittleEndian.PutUint32(b[:], uint32(n))
		h.Write(b[:])
	}
	if coll.NewNodes(of) == nil {
		of = nil
	}
	return of, h.Sum64()
}

// gatherProcessInfo returns the info of every process. host is the host name of this one.
func gatherProcessInfo(g coll.Peer, host string, mine [infoHashes]uint64) ([][infoWords]uint64, error) {
	var me [infoWords]uint64
	copy(me[:], mine[:])
	var name [maxHostName]byte
	copy(name[:], host)
	for i := range maxHostName / 8 {
		me[infoHostName+i] = binary.LittleEndian.Uint64(name[8*i:])
	}
	flat := make([]uint64, g.Size()*infoWords)
	if err := coll.Allgather(g, Bytes(flat), Bytes(me[:])); err != nil {
		return nil, err
	}
	var all [][infoWords]uint64
	for x := range slices.Chunk(flat, infoWords) {
		all = append(all, [infoWords]uint64(x))
	}
	return all, nil
}

// hostNameOf returns the host name in a process's info.
func hostNameOf(x [infoWords]uint64) string {
	var name [maxHostName]byte
	for i := range maxHostName / 8 {
		binary.LittleEndian.PutUint64(name[8*i:], x[infoHostName+i])
	}
	return string(bytes.TrimRight(name[:], "\x00"))
}
