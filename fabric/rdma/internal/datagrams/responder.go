package datagrams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/memory"
	"github.com/ibrun/ibrun/verbs"
)

// Responder answers probes, by which peers ask whether this process still exists. Connection
// requests are answered by Poll, and a program may compute for any time between two Polls, so their
// silence says nothing. That is why probes have a queue pair of their own, and a goroutine that
// answers them. The goroutine is parked while none arrive.
type Responder struct {
	Identity
	addr   []byte // our own
	params verbs.Params

	rail    *devices.Rail            // of its fields that change, the goroutine uses none
	indices [cm.MaxPartitions]uint16 // of the keys of its partitions
	slots   int                      // in use for each queue pair, at most responderSlots
	qps     []*verbs.QP              // one in each partition of the rail
	cq      *verbs.CQ
	channel *verbs.Channel
	mem     []byte // responderSlots slots for each queue pair: for a probe, then for its answer
	mr      *verbs.MR
	// generation: how often the queue pairs were recovered; completions of earlier generations are
	// ignored
	generation uint32
	failed     bool                     // a queue pair has failed: an answer was sent while the link was down
	dests      map[uint32]*answerTarget // by peer
	wcs        [16]verbs.WC

	stop    context.CancelFunc // ends the goroutine; nil before start
	stopped chan struct{}      // closed when it has ended
}

const (
	// responderSlots is how many probes can arrive before the goroutine answers, in each partition,
	// if the device grants that.
	responderSlots = 64
	answerID       = 1 << 31 // in the work request ID of an answer, beside the number of its slot

	// A peer that does not get its answers sends another probe in each keepalive interval. So an
	// address handle is renewed that is older than this: the host of the peer may have another MAC
	// address.
	maxTargetAge = 2 * time.Second
)

// answerTarget is where answers to a peer go.
type answerTarget struct {
	*Destination
	revision uint16 // of the peer's address
	made     time.Time
}

// Open creates the queue pairs on the first rail.
func (p *Responder) Open(r *devices.Rail, id Identity, params verbs.Params) (err error) {
	p.Identity, p.rail, p.params, p.indices, p.dests = id, r, params, r.Indices(), map[uint32]*answerTarget{}
	if p.channel, err = r.Dev.CreateChannel(); err != nil {
		return err
	}
	partitions := len(r.UDs())
	p.slots = min(responderSlots, r.Granted.UD)
	if p.cq, err = r.CreateCQ(2*p.slots*partitions, p.channel); err != nil {
		return err
	}
	for i := range partitions {
		qp, err := r.CreateUD(p.cq, p.cq, p.slots, p.slots, i)
		if err != nil {
			return err
		}
		p.qps = append(p.qps, qp)
	}
	if p.mem, err = memory.Map(responderSlots * partitions * devices.DatagramSlot); err != nil {
		return err
	}
	if p.mr, err = r.PD.Register(p.mem, verbs.LocalWrite); err != nil {
		return err
	}
	if err := p.cq.Notify(false); err != nil { // as run does later
		return err
	}
	return p.postAll()
}

// QueuePairs returns the queue pairs, one for each partition of the rail.
func (p *Responder) QueuePairs() []*verbs.QP { return p.qps }

// Unmap frees the memory. The device must be closed.
func (p *Responder) Unmap() {
	if p.mem != nil {
		memory.Unmap(p.mem)
		p.mem = nil
	}
}

// Start starts the goroutine. addr is our own address, which answers have.
func (p *Responder) Start(addr []byte) {
	p.addr = addr
	p.startAfter(func() {})
}

// Addr returns our own address. It must not be called while the goroutine runs.
func (p *Responder) Addr() []byte { return p.addr }

// startAfter starts the goroutine, which calls first before anything else.
func (p *Responder) startAfter(first func()) {
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	p.stop, p.stopped = stop, stopped
	go func() {
		defer close(stopped)
		first()
		p.run(ctx)
	}()
}

// Close ends the goroutine and waits for it. It does nothing if there is none.
func (p *Responder) Close() {
	if p.stop != nil {
		p.stop()
		<-p.stopped
		p.stop = nil
	}
}

// run answers probes until the context ends. If the device refuses a call, run looks for probes
// after a pause: peers would take a process that does not answer for lost. It does so too if the
// error says that the device is lost: other errors have the same number, and Poll finds out whether
// it is.
func (p *Responder) run(ctx context.Context) {
	for ctx.Err() == nil {
		notify, err := p.cq.Notify(false), p.answerAll()
		recovered := error(nil)
		if p.failed {
			recovered = p.recover()
			p.failed = recovered != nil // the link is still down
		}
		if err = cmp.Or(notify, err); err == nil && recovered == nil {
			_, err = p.channel.Wait(ctx)
		}
		switch {
		case errors.Is(err, verbs.ErrClosed):
			return
		case errors.Is(err, verbs.ErrDeviceLost), recovered != nil:
			liveness.Sleep(ctx, RecoverInterval)
		case err != nil:
			liveness.Sleep(ctx, responderPause)
		}
	}
}

// RecoverInterval is the time between two attempts to restart queue pairs for datagrams. An attempt
// fails as long as the link is down, which seldom ends soon. The goroutine that answers probes also
// waits for this time if the device may be lost.
const RecoverInterval = 500 * time.Millisecond

// responderPause is how long the goroutine waits after a call that the device has refused.
const responderPause = 20 * time.Millisecond

// answerAll handles completions until there are none.
func (p *Responder) answerAll() error {
	for {
		n, err := p.cq.Poll(p.wcs[:])
		for i := range p.wcs[:n] {
			p.handle(&p.wcs[i])
		}
		if err != nil || n == 0 {
			return err
		}
	}
}

// handle answers a probe, or makes the slot of an answer that was sent ready for the next probe.
func (p *Responder) handle(wc *verbs.WC) {
	slot := uint32(wc.ID) &^ answerID
	if uint32(wc.ID>>32) != p.generation {
		return
	}
	if wc.Status != verbs.StatusSuccess {
		p.failed = true // recover posts all receives again
		return
	}
	if uint32(wc.ID)&answerID == 0 && p.answer(slot, int(wc.Len)) == nil {
		return // the slot is posted again once the answer was sent
	}
	p.failed = p.post(slot) != nil || p.failed
}

var errNoProbe = errors.New("not a probe of a peer to this process")

// answer answers the probe of n bytes in a slot.
func (p *Responder) answer(slot uint32, n int) error {
	if n <= devices.RouteHeaderBytes || n > devices.DatagramSlot {
		return errNoProbe
	}
	b := p.mem[slot*devices.DatagramSlot:][:devices.DatagramSlot:devices.DatagramSlot]
	m, err := cm.ParseMessage(b[devices.RouteHeaderBytes:n], &p.Key)
	if err != nil {
		return err
	}
	if m.Kind != cm.Probe || m.To != p.Self || !p.accepts(&m) {
		return errNoProbe
	}
	to, err := p.target(&m)
	if err != nil {
		return err
	}
	answer := cm.Message{
		Kind: cm.Alive, From: p.Self, To: m.From, Size: p.Size, Epoch: m.Epoch, FromIncarnation: p.Incarnation,
		ToIncarnation: m.FromIncarnation, NextSeq: m.NextSeq, Address: p.addr,
	}
	bytes := len(answer.Append(b[:0], &p.Key))
	err = to.ud.SendTo(p.wrID(slot|answerID), verbs.Signaled, to.Dest, p.mr.SGE(int(slot)*devices.DatagramSlot, bytes))
	if err != nil {
		return err
	}
	return to.ud.Ring()
}

// target returns where the answer to a probe goes.
func (p *Responder) target(m *cm.Message) (*Destination, error) {
	old, revision := p.dests[m.From], uint16(0)
	if old != nil {
		revision, _ = cm.Revision(m.Address)
		if revision == old.revision && time.Since(old.made) < maxTargetAge {
			return old.Destination, nil
		}
	}
	a, err := cm.ParseAddress(m.Address)
	if err != nil || a.Incarnation != m.FromIncarnation {
		return nil, errNoProbe
	}
	i, j, err := p.rail.SharedPartition(&a.Rails[0])
	if err != nil {
		return nil, err
	}
	ud, peer := p.qps[i], a.Rails[0].Datagrams(j)
	d, err := newDestination(ud, peer, p.params)
	switch {
	case err != nil && old != nil && a.Revision == old.revision:
		old.made = time.Now() // the old handle stays, and answers are not delayed by every probe
		return old.Destination, nil
	case errors.Is(err, verbs.ErrLimit): // of address handles
		p.forgetTargets()
		old = nil
		d, err = newDestination(ud, peer, p.params)
	}
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.close()
	}
	p.dests[m.From] = &answerTarget{d, a.Revision, time.Now()}
	return d, nil
}

// forgetTargets makes the next answer to each peer resolve its address again.
func (p *Responder) forgetTargets() {
	for _, t := range p.dests {
		t.close()
	}
	clear(p.dests)
}

// Readdress makes the responder use another own address, and renew what depends on it. restart
// means that the queue pairs must be restarted. Readdress does not wait: the goroutine may be
// resolving the address of a dead host, which takes a second or more. A new goroutine goes on when
// the old one has ended.
func (p *Responder) Readdress(addr []byte, indices [cm.MaxPartitions]uint16, restart bool) {
	p.stop()
	before := p.stopped
	p.startAfter(func() {
		<-before
		p.forgetTargets()
		p.addr, p.indices, p.failed = addr, indices, p.failed || restart
	})
}

func (p *Responder) wrID(i uint32) uint64 { return uint64(p.generation)<<32 | uint64(i) }

// post posts a slot for the next probe.
func (p *Responder) post(slot uint32) error {
	return p.qps[slot/responderSlots].Recv(p.wrID(slot), p.mr.SGE(int(slot)*devices.DatagramSlot, devices.DatagramSlot))
}

func (p *Responder) postAll() error {
	for i := range uint32(responderSlots * len(p.qps)) {
		if int(i%responderSlots) >= p.slots {
			continue
		}
		if err := p.post(i); err != nil {
			return err
		}
	}
	return nil
}

// recover makes the queue pairs usable after one has failed. See [Socket.Recover].
func (p *Responder) recover() error {
	for i, qp := range p.qps {
		if err := p.rail.RestartUD(qp, p.indices[i]); err != nil {
			return fmt.Errorf("recover the queue pair for probes: %w", err)
		}
	}
	p.generation++
	p.failed = false
	return p.postAll()
}
