//go:build unix

package verbstest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"syscall"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/opener"
)

// SimulatedNetwork is a network whose devices exist in this process only, for tests of code that uses package verbs. Tests
// control the order of events, and faults that are rare on real devices. The goroutine that rings the doorbell executes the
// requests. A request that cannot be executed yet is executed at a later change of the network. Only DropDatagrams loses
// messages; a message to a connected peer without a posted receive waits. Only queue pairs of the types UD and RC exist. UD can
// send; RC can also write and read.
type SimulatedNetwork struct {
	mu           sync.Mutex
	lastID       uint32                   // the last number or key
	qps          []*simQP                 // in order of creation, which is that of their numbers
	busy         []*simQP                 // have submitted requests
	mrs          map[uint32][]byte        // by key
	access       map[uint32]verbs.Access  // of memory, by key
	ports        map[string]SimulatedPort // by device; see SetPort
	paused       bool
	linkDown     bool
	dropDatagram func() bool
	largest      int                          // see LoseLarge
	forever      bool                         // see RetransmitForever
	fail         func(bytes int) verbs.Status // see Fail; may be nil
	failReceive  func(bytes int) verbs.Status // see FailReceives; may be nil
	separate     func(from, to string) bool
	devices      map[string]SimulatedDevice // that were configured
	refuse       func(device string, c SimulatedCall) error
	delay        func() int   // see NewSimulatedAdapters; nil: completions are not delayed
	open         []*simDevice // that are open
	srqs         []*simSRQ    // in order of creation
	vectors      []int        // of the completion queues, in order of creation
}

// NewSimulatedNetwork returns a network without devices. When queue pairs are closed, its devices behave like Soft-RoCE.
func NewSimulatedNetwork() *SimulatedNetwork {
	return &SimulatedNetwork{mrs: map[uint32][]byte{}, access: map[uint32]verbs.Access{},
		devices: map[string]SimulatedDevice{}, ports: map[string]SimulatedPort{}}
}

// Open opens a device of the network. A device may be opened more than once.
func (n *SimulatedNetwork) Open(name string) (*verbs.Context, error) {
	return opener.Open(simProvider{n}, n.describe(name))
}

// describe returns a device as package hw would describe it.
func (n *SimulatedNetwork) describe(name string) hw.RDMADevice {
	return hw.RDMADevice{Name: name, Type: hw.NodeCA, Provider: "simulated",
		Ports: []hw.RDMAPort{n.portOf(name).hw()}, Chars: []hw.CharDevice{{Kind: "uverbs", Name: "uverbs0"}},
	}
}

// SetPaused stops the execution of requests, or resumes it.
func (n *SimulatedNetwork) SetPaused(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused = on
	n.progress()
}

// SetLinkDown takes all links down, or up again. While the links are down, sending a datagram fails and its queue pair enters
// the error state, as with Soft-RoCE. Requests of connections wait.
func (n *SimulatedNetwork) SetLinkDown(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.linkDown = on
	n.progress()
}

// BreakConnections brings all queue pairs of connections to the error state, as a fault of the network does.
func (n *SimulatedNetwork) BreakConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range n.qps {
		if q.typ == verbs.RC {
			q.enterError()
		}
	}
	n.progress()
}

// DropDatagrams loses every datagram for which f returns true. f is called once for each sent datagram. A nil f loses none.
func (n *SimulatedNetwork) DropDatagrams(f func() bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropDatagram = f
}

// nextID returns a number that was not used before. The caller must hold mu.
func (n *SimulatedNetwork) nextID() uint32 {
	n.lastID++
	return n.lastID
}

// progress executes requests until none can be executed. The caller must hold mu.
func (n *SimulatedNetwork) progress() {
	for moved := !n.paused; moved; {
		moved = false
		for _, q := range n.busy {
			for q.executeNext() {
				moved = true
			}
		}
		n.busy = slices.DeleteFunc(n.busy, func(q *simQP) bool { return q.submitted == 0 })
	}
}

// indexOf returns the index of a queue pair in qps, -1 if it does not exist. The caller must hold mu.
func (n *SimulatedNetwork) indexOf(num uint32) int {
	i, ok := slices.BinarySearchFunc(n.qps, num, func(q *simQP, num uint32) int { return cmp.Compare(q.num, num) })
	if !ok {
		return -1
	}
	return i
}

// registeredMemory returns the memory of a key at addr, or nil if the key does not cover all of it. The caller must hold mu.
func (n *SimulatedNetwork) registeredMemory(key uint32, addr uint64, bytes int) []byte {
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

type simProvider struct{ net *SimulatedNetwork }

func (simProvider) Name() string { return "simulated" }

func (p simProvider) Open(d ib.Device) (ib.Context, error) {
	if err := p.net.call(d.Name, CallOpen); err != nil {
		return nil, err
	}
	events, err := newSimEvents()
	dev := &simDevice{net: p.net, name: d.Name, is: p.net.device(d.Name), async: events}
	if err == nil {
		p.net.addOpen(dev)
	}
	return dev, err
}

// simEvents is a pipe from which the tokens of events are read.
type simEvents struct{ pipe [2]int }

func newSimEvents() (e simEvents, err error) {
	if err := syscall.Pipe(e.pipe[:]); err != nil {
		return e, err
	}
	return e, errors.Join(syscall.SetNonblock(e.pipe[0], true), syscall.SetNonblock(e.pipe[1], true))
}

func (e *simEvents) FD() int { return e.pipe[0] }
func (e *simEvents) Close() error {
	return errors.Join(syscall.Close(e.pipe[0]), syscall.Close(e.pipe[1]))
}

type simDevice struct {
	net     *SimulatedNetwork
	name    string
	is      SimulatedDevice
	ahs     int  // open address handles; guarded by the mutex of the network
	removed bool // by RemoveDevice; guarded by the mutex of the network
	async   simEvents
}

func (d *simDevice) AsyncFD() int            { return d.async.FD() }
func (d *simDevice) AckAsync(uint32, uint64) {}

// KeepsCompletions reports whether closing a queue pair leaves its completions where they are.
func (d *simDevice) KeepsCompletions() bool { return d.net.delay == nil }

// DoorbellIsCall reports whether the doorbell is that of Soft-RoCE.
func (d *simDevice) DoorbellIsCall() bool { return d.net.delay == nil }

func (d *simDevice) Close() error {
	if err := d.call(CallCloseDevice); err != nil {
		return err
	}
	d.net.removeOpen(d)
	return d.async.Close()
}

func (d *simDevice) QueryDevice() (ib.DeviceAttr, error) {
	return ib.DeviceAttr(d.is.Attr), d.call(CallQueryDevice)
}

func (d *simDevice) AllocPD() (ib.PD, error) { return &simPD{d}, d.call(CallAllocPD) }

func (d *simDevice) CreateChannel() (ib.Channel, error) {
	if err := d.call(CallCreateChannel); err != nil {
		return nil, err
	}
	events, err := newSimEvents()
	return &simChannel{events, d}, err
}

// simChannel is a completion channel.
type simChannel struct {
	simEvents
	dev *simDevice
}

func (c *simChannel) Close() error {
	if err := c.dev.call(CallDestroyChannel); err != nil {
		return err
	}
	return c.simEvents.Close()
}

func (d *simDevice) CompVectors() int { return d.is.CompVectors }

func (d *simDevice) CreateCQ(n int, ch ib.Channel, vector int) (ib.CQ, error) {
	if err := d.call(CallCreateCQ); err != nil {
		return nil, err
	}
	if n > int(d.is.Attr.MaxCQE) || vector >= d.is.CompVectors {
		return nil, syscall.EINVAL
	}
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	events, _ := ch.(*simChannel)
	d.net.vectors = append(d.net.vectors, vector)
	return &simCQ{dev: d, net: d.net, capacity: n, events: events, token: uint64(d.net.nextID())}, nil
}

// simCQ is guarded by the mutex of the network, as are all types below.
type simCQ struct {
	dev      *simDevice
	net      *SimulatedNetwork
	capacity int
	token    uint64
	events   *simChannel
	armed    bool
	wcs      []ib.WC
	late     []lateWC // not in the queue yet
}

func (c *simCQ) Len() int         { return c.capacity }
func (c *simCQ) Token() uint64    { return c.token }
func (c *simCQ) AckEvents(int)    {}
func (c *simCQ) Resize(int) error { return syscall.EOPNOTSUPP }
func (c *simCQ) Close() error     { return c.dev.call(CallDestroyCQ) }

func (c *simCQ) Poll(wcs []ib.WC) (int, error) {
	if err := c.dev.call(CallPoll); err != nil {
		return 0, err
	}
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.releaseLate(false)
	k := copy(wcs, c.wcs)
	c.wcs = slices.Delete(c.wcs, 0, k)
	return k, nil
}

func (c *simCQ) Notify(bool) error {
	if err := c.dev.call(CallNotify); err != nil {
		return err
	}
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.armed = true
	c.releaseLate(true) // nothing polls before the event
	return nil
}

// addCompletion adds a completion. An overrun is an error of the test. The caller must hold the mutex of the network.
func (c *simCQ) addCompletion(wc ib.WC) {
	if len(c.wcs)+len(c.late) >= c.capacity {
		panic("verbstest: a completion queue overran")
	}
	if c.net.delay != nil && !c.armed {
		c.late = append(c.late, lateWC{wc, c.net.delay()})
		return
	}
	c.insert(wc)
}

// insert adds a completion to the queue, and makes the event that was requested. The caller must hold the mutex of the network.
func (c *simCQ) insert(wc ib.WC) {
	c.wcs = append(c.wcs, wc)
	if c.armed && c.events != nil {
		c.armed = false
		// The write fails if the pipe is full. The reader has enough events then.
		_, _ = syscall.Write(c.events.pipe[1], binary.NativeEndian.AppendUint64(nil, c.token))
	}
}

type simPD struct{ dev *simDevice }

func (p *simPD) Close() error                 { return p.dev.call(CallDeallocPD) }
func (p *simPD) AllocMW(uint8) (ib.MW, error) { return nil, syscall.EOPNOTSUPP }

func (p *simPD) RegMR(addr, length, _ uint64, access uint32) (ib.MR, error) {
	n := p.dev.net
	if err := p.dev.call(CallRegMR); err != nil {
		return nil, err
	}
	if most := p.dev.is.Attr.MaxMRSize; most != 0 && length > most {
		return nil, syscall.EINVAL
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m := &simMR{p.dev, n.nextID()}
	n.mrs[m.key], n.access[m.key] = memoryAt(addr, int(length)), verbs.Access(access)
	return m, nil
}

func (p *simPD) CreateSRQ(wr, sge, _ uint32) (ib.SRQ, error) {
	n := p.dev.net
	if err := p.dev.call(CallCreateSRQ); err != nil {
		return nil, err
	}
	switch {
	case p.dev.is.Attr.MaxSRQ == 0:
		return nil, syscall.EOPNOTSUPP
	case wr > p.dev.is.Attr.MaxSRQWR || sge > p.dev.is.Attr.MaxSRQSGE:
		return nil, syscall.EINVAL
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &simSRQ{simRecvQueue{dev: p.dev, call: CallSRQRecv, net: n, capacity: int(wr)}, n.nextID(), sge}
	n.srqs = append(n.srqs, s)
	return s, nil
}

func (p *simPD) CreateAH(a ib.AHAttr) (ib.AH, error) {
	n := p.dev.net
	if err := p.dev.call(CallCreateAH); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.dev.ahs == int(p.dev.is.Attr.MaxAH) {
		return nil, syscall.ENOMEM
	}
	path, err := p.dev.resolve(&a)
	if err == nil {
		p.dev.ahs++
	}
	return &simAH{p.dev, path}, err
}

func (p *simPD) CreateQP(init ib.QPInit) (ib.QP, error) {
	n := p.dev.net
	if err := p.dev.call(CallCreateQP); err != nil {
		return nil, err
	}
	if err := p.dev.is.checkQP(&init); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if open := len(n.qpsOf(p.dev)); open >= int(p.dev.is.Attr.MaxQP) {
		return nil, syscall.ENOMEM
	}
	q := &simQP{dev: p.dev, num: n.nextID(), typ: verbs.QPType(init.Type), cap: init.Cap, signalAll: init.SignalAll,
		sendCQ: init.SendCQ.(*simCQ), recvCQ: init.RecvCQ.(*simCQ), ownRecvs: simRecvQueue{dev: p.dev, call: CallRecv, net: n,
			capacity: int(init.Cap.RecvWR)}}
	q.recvs = &q.ownRecvs
	if s, ok := init.SRQ.(*simSRQ); ok {
		q.recvs, q.srq = &s.simRecvQueue, true
	}
	n.qps = append(n.qps, q)
	return q, nil
}

type simMR struct {
	dev *simDevice
	key uint32
}

func (m *simMR) Keys() (lkey, rkey uint32) { return m.key, m.key }

func (m *simMR) Rereg(uint32, ib.PD, uint64, uint64, uint64, uint32) error {
	return syscall.EOPNOTSUPP
}

func (m *simMR) Close() error {
	n := m.dev.net
	if err := m.dev.call(CallDeregMR); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mrs, m.key)
	delete(n.access, m.key)
	return nil
}

type simAH struct {
	dev  *simDevice
	path simPath
}

func (a *simAH) Close() error {
	if err := a.dev.call(CallDestroyAH); err != nil {
		return err
	}
	a.dev.net.mu.Lock()
	defer a.dev.net.mu.Unlock()
	a.dev.ahs--
	return nil
}

// simRecvQueue is a receive queue, of one queue pair or shared.
type simRecvQueue struct {
	dev      *simDevice
	call     SimulatedCall // that posts
	net      *SimulatedNetwork
	capacity int
	posted   []ib.SendWR // ID and SGE of each
}

// Recv posts a receive.
func (r *simRecvQueue) Recv(id uint64, sge []ib.SGE) error {
	if err := r.dev.call(r.call); err != nil {
		return err
	}
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if len(r.posted) == r.capacity {
		return ib.ErrFull
	}
	r.posted = append(r.posted, ib.SendWR{ID: id, SGE: slices.Clone(sge)})
	r.net.progress()
	return nil
}

// RecvList posts receives.
func (r *simRecvQueue) RecvList(list []ib.RecvWR) (int, error) {
	for i := range list {
		if err := r.Recv(list[i].ID, []ib.SGE{list[i].SGE}); err != nil {
			return i, err
		}
	}
	return len(list), nil
}

type simSRQ struct {
	simRecvQueue
	num, maxSGE uint32
}

func (s *simSRQ) Num() uint32                         { return s.num }
func (s *simSRQ) Token() uint64                       { return uint64(s.num) }
func (s *simSRQ) Cap() (wr, sge uint32)               { return uint32(s.capacity), s.maxSGE }
func (s *simSRQ) Modify(uint32, uint32, uint32) error { return syscall.EOPNOTSUPP }
func (s *simSRQ) Close() error                        { return s.dev.call(CallDestroySRQ) }

func (s *simSRQ) Query() (wr, sge, limit uint32, err error) {
	return uint32(s.capacity), s.maxSGE, 0, nil
}
