//go:build unix

package verbstest

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// Played is a network whose devices exist in this process only, for tests of what is built on package verbs: they say in which
// order things happen, such as faults that real devices have rarely. Requests are carried out when they are rung for, in the
// goroutine that rings, and what cannot be then whenever something changes. Nothing is lost that Lose does not ask for, and what
// a peer has no receive for waits. Datagrams and reliable connections can send, write and read; there is nothing else.
type Played struct {
	mu   sync.Mutex
	last uint32            // number or key
	qps  []*playedQP       // in the order in which they were made
	mrs  map[uint32][]byte // by key
	held bool
	down bool
	lose func() bool
}

// Play makes a network.
func Play() *Played { return &Played{mrs: map[uint32][]byte{}} }

// Open opens a device of the network.
func (n *Played) Open(name string) (*verbs.Context, error) {
	return verbs.OpenOn(playedProvider{n}, hw.RDMADevice{Name: name, Type: hw.NodeCA, Provider: "played",
		Ports: []hw.RDMAPort{{Number: 1, State: hw.PortActive, LinkLayer: hw.LinkEthernet, Netdev: "eth0", GIDs: []hw.GID{
			{Index: 1, Addr: playedAddr, Type: hw.GIDRoCEv2, Netdev: "eth0"},
		}}},
		Chars: []hw.CharDevice{{Kind: "uverbs", Name: "uverbs0"}},
	})
}

var playedAddr = netip.MustParseAddr("::ffff:10.0.0.1")

// Hold has nothing move until Hold(false).
func (n *Played) Hold(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = on
	n.run()
}

// Down takes the links down, or up again. While they are, a datagram that is sent fails, and its queue pair with it, as with
// Soft-RoCE; connections wait.
func (n *Played) Down(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = on
	n.run()
}

// Lose has those datagrams be lost for which f is true, nil for none. It is called with each that is sent, once.
func (n *Played) Lose(f func() bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose = f
}

// number is one that was not used before. The caller holds the lock.
func (n *Played) number() uint32 {
	n.last++
	return n.last
}

// run carries out what can be. The caller holds the lock.
func (n *Played) run() {
	for moved := !n.held; moved; {
		moved = false
		for _, q := range n.qps {
			for q.step() {
				moved = true
			}
		}
	}
}

// memory is what a key names, nil if it names less.
func (n *Played) memory(key uint32, addr uint64, bytes int) []byte {
	mem := n.mrs[key]
	if len(mem) == 0 {
		return nil
	}
	first := memaddr.Of(mem)
	if addr < first || addr-first > uint64(len(mem)) || uint64(bytes) > uint64(len(mem))-(addr-first) {
		return nil
	}
	return mem[addr-first:][:bytes]
}

type playedProvider struct{ n *Played }

func (playedProvider) Name() string { return "played" }

func (p playedProvider) Open(ib.Device) (ib.Context, error) {
	events, err := newPlayedEvents()
	return &playedDevice{p.n, events}, err
}

// playedEvents is a descriptor from which tokens are read.
type playedEvents struct{ ends [2]int }

func newPlayedEvents() (e playedEvents, err error) {
	if err := syscall.Pipe(e.ends[:]); err != nil {
		return e, err
	}
	return e, errors.Join(syscall.SetNonblock(e.ends[0], true), syscall.SetNonblock(e.ends[1], true))
}

func (e *playedEvents) FD() int { return e.ends[0] }
func (e *playedEvents) Close() error {
	return errors.Join(syscall.Close(e.ends[0]), syscall.Close(e.ends[1]))
}

type playedDevice struct {
	n     *Played
	async playedEvents
}

func (d *playedDevice) AsyncFD() int            { return d.async.FD() }
func (d *playedDevice) AckAsync(uint32, uint64) {}
func (d *playedDevice) Close() error            { return d.async.Close() }

func (d *playedDevice) QueryDevice() (ib.DeviceAttr, error) {
	return ib.DeviceAttr{MaxMRSize: 1 << 40, MaxQP: 1 << 16, MaxQPWR: 1 << 14, MaxSGE: 32, MaxSGERd: 32, MaxCQ: 100, MaxCQE: 1 << 16,
		MaxMR: 1 << 16, MaxPD: 100, MaxQPRdAtom: 16, MaxQPInitRdAtom: 16, MaxAH: 1 << 16, MaxSRQ: 10, MaxSRQWR: 1 << 15,
		MaxSRQSGE: 32, MaxPKeys: 1, Ports: 1}, nil
}

func (d *playedDevice) QueryPort(int) (ib.PortAttr, error) {
	return ib.PortAttr{State: uint8(verbs.PortActive), MaxMTU: 5, ActiveMTU: 3, MaxMsgSize: 1 << 30, GIDTableLen: 2,
		PKeyTableLen: 1, LinkLayer: 2}, nil
}

func (d *playedDevice) QueryGIDs() ([]ib.GID, error) {
	return []ib.GID{{GID: playedAddr.As16(), Index: 1, Port: 1, Type: 2}}, nil
}

func (d *playedDevice) QueryPKey(int, int) (uint16, error) { return 0xffff, nil }
func (d *playedDevice) AllocPD() (ib.PD, error)            { return &playedPD{d.n}, nil }

func (d *playedDevice) CreateChannel() (ib.Channel, error) {
	events, err := newPlayedEvents()
	return &events, err
}

func (d *playedDevice) CreateCQ(n int, ch ib.Channel, _ int) (ib.CQ, error) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	events, _ := ch.(*playedEvents)
	return &playedCQ{n: d.n, size: n, events: events, token: uint64(d.n.number())}, nil
}

// playedCQ is guarded by the network's lock, as is all that follows.
type playedCQ struct {
	n      *Played
	size   int
	token  uint64
	events *playedEvents
	armed  bool
	wcs    []ib.WC
}

func (c *playedCQ) Len() int         { return c.size }
func (c *playedCQ) Token() uint64    { return c.token }
func (c *playedCQ) AckEvents(int)    {}
func (c *playedCQ) Resize(int) error { return syscall.EOPNOTSUPP }
func (c *playedCQ) Close() error     { return nil }

func (c *playedCQ) Poll(wcs []ib.WC) (int, error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	k := copy(wcs, c.wcs)
	c.wcs = slices.Delete(c.wcs, 0, k)
	return k, nil
}

func (c *playedCQ) Notify(bool) error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.armed = true
	return nil
}

// put adds a completion. One too many would be lost in a real queue, and is the test's mistake here.
func (c *playedCQ) put(wc ib.WC) {
	if len(c.wcs) == c.size {
		panic("verbstest: a completion queue overran")
	}
	c.wcs = append(c.wcs, wc)
	if c.armed && c.events != nil {
		c.armed = false
		// A pipe that is full has more than enough to read.
		_, _ = syscall.Write(c.events.ends[1], binary.NativeEndian.AppendUint64(nil, c.token))
	}
}

type playedPD struct{ n *Played }

func (p *playedPD) Close() error                 { return nil }
func (p *playedPD) AllocMW(uint8) (ib.MW, error) { return nil, syscall.EOPNOTSUPP }

func (p *playedPD) RegMR(addr, length, _ uint64, _ uint32) (ib.MR, error) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	m := &playedMR{p.n, p.n.number()}
	p.n.mrs[m.key] = memoryAt(addr, int(length))
	return m, nil
}

func (p *playedPD) CreateSRQ(wr, sge, _ uint32) (ib.SRQ, error) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	return &playedSRQ{playedReceives{n: p.n, most: int(wr)}, p.n.number(), sge}, nil
}

func (p *playedPD) CreateAH(ib.AHAttr) (ib.AH, error) { return playedAH{}, nil }

func (p *playedPD) CreateQP(init ib.QPInit) (ib.QP, error) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	q := &playedQP{num: p.n.number(), typ: verbs.QPType(init.Type), cap: init.Cap, all: init.SignalAll,
		scq: init.SendCQ.(*playedCQ), rcq: init.RecvCQ.(*playedCQ), own: playedReceives{n: p.n, most: int(init.Cap.RecvWR)}}
	q.from = &q.own
	if s, ok := init.SRQ.(*playedSRQ); ok {
		q.from = &s.playedReceives
	}
	p.n.qps = append(p.n.qps, q)
	return q, nil
}

type playedMR struct {
	n   *Played
	key uint32
}

func (m *playedMR) Keys() (lkey, rkey uint32) { return m.key, m.key }

func (m *playedMR) Rereg(uint32, ib.PD, uint64, uint64, uint64, uint32) error {
	return syscall.EOPNOTSUPP
}

func (m *playedMR) Close() error {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	delete(m.n.mrs, m.key)
	return nil
}

type playedAH struct{}

func (playedAH) Close() error { return nil }

// playedReceives is a receive queue, shared or not.
type playedReceives struct {
	n    *Played
	most int
	list []ib.SendWR // ID and SGE of each
}

// Recv queues a receive.
func (r *playedReceives) Recv(id uint64, sge []ib.SGE) error {
	r.n.mu.Lock()
	defer r.n.mu.Unlock()
	if len(r.list) == r.most {
		return ib.ErrFull
	}
	r.list = append(r.list, ib.SendWR{ID: id, SGE: slices.Clone(sge)})
	r.n.run()
	return nil
}

type playedSRQ struct {
	playedReceives
	num, sge uint32
}

func (s *playedSRQ) Num() uint32                         { return s.num }
func (s *playedSRQ) Token() uint64                       { return uint64(s.num) }
func (s *playedSRQ) Cap() (wr, sge uint32)               { return uint32(s.most), s.sge }
func (s *playedSRQ) Modify(uint32, uint32, uint32) error { return syscall.EOPNOTSUPP }
func (s *playedSRQ) Close() error                        { return nil }

func (s *playedSRQ) Query() (wr, sge, limit uint32, err error) { return uint32(s.most), s.sge, 0, nil }
