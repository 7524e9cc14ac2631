package rdma

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/verbs"
)

// responder answers probes, by which peers ask whether this process still exists. Connection requests are answered by Poll, and
// a program may compute for any time between two Polls, so their silence says nothing. That is why probes have a queue pair of
// their own, and a goroutine that answers them. The goroutine is parked while none arrive.
type responder struct {
	key         auth.Key
	self, size  uint32
	incarnation uint64
	addr        []byte // of the domain

	rail       *rail
	slots      int // in use, at most responderSlots
	qp         *verbs.QP
	cq         *verbs.CQ
	channel    *verbs.Channel
	mem        []byte // responderSlots slots of cmSlotBytes, which hold a probe and then its answer
	mr         *verbs.MR
	generation uint32                 // how often the queue pair was recovered; completions of earlier generations are ignored
	failed     bool                   // the queue pair has failed: an answer was sent while the link was down
	dests      map[uint32]*verbs.Dest // by peer
	wcs        [16]verbs.WC

	stop    context.CancelFunc // ends the goroutine; nil before start
	stopped chan struct{}      // closed when it has ended
}

const (
	responderSlots = 64      // probes that can arrive before the goroutine answers, if the device grants that
	answerID       = 1 << 31 // in the work request ID of an answer, beside the number of its slot
)

// open creates the queue pair on the first rail.
func (p *responder) open(r *rail) (err error) {
	p.rail, p.dests = r, map[uint32]*verbs.Dest{}
	if p.channel, err = r.dev.CreateChannel(); err != nil {
		return err
	}
	p.slots = min(responderSlots, r.granted.ud)
	if p.cq, err = r.dev.CreateCQ(2*p.slots, p.channel); err != nil {
		return err
	}
	p.qp, err = r.pd.CreateQP(verbs.QPConfig{
		Type: verbs.UD, SendCQ: p.cq, RecvCQ: p.cq, MaxSend: p.slots, MaxRecv: p.slots, QKey: r.qkey, Port: r.port,
	})
	if err != nil {
		return err
	}
	if err := p.qp.Start(); err != nil {
		return err
	}
	if p.mem, err = mapMemory(responderSlots * cmSlotBytes); err != nil {
		return err
	}
	if p.mr, err = r.pd.Register(p.mem, verbs.LocalWrite); err != nil {
		return err
	}
	return p.postAll()
}

// start starts the goroutine. The queue pair must be open, and the identity of the domain set.
func (p *responder) start() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop, p.stopped = stop, make(chan struct{})
	go func() {
		defer close(p.stopped)
		p.run(ctx)
	}()
}

// close ends the goroutine and waits for it. The memory must not be freed before the device is closed: see domain.release.
func (p *responder) close() {
	if p.stop != nil {
		p.stop()
		<-p.stopped
		p.stop = nil
	}
}

// run answers probes until the context ends or the device is lost. Poll reports a lost device.
func (p *responder) run(ctx context.Context) {
	for {
		if p.cq.Notify(false) != nil || p.answerAll() != nil {
			return
		}
		if p.failed && p.recover() != nil {
			p.failed = true // the link is still down
			if !pause(ctx, maxREQInterval) {
				return
			}
			continue
		}
		if _, err := p.channel.Wait(ctx); err != nil {
			return
		}
	}
}

// pause waits for d. It returns false if the context ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// answerAll handles completions until there are none.
func (p *responder) answerAll() error {
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
func (p *responder) handle(wc *verbs.WC) {
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
func (p *responder) answer(slot uint32, n int) error {
	if n <= grhBytes || n > cmSlotBytes {
		return errNoProbe
	}
	b := p.mem[slot*cmSlotBytes:][:cmSlotBytes:cmSlotBytes]
	key := [32]byte(p.key)
	m, err := parseCMMessage(b[grhBytes:n], &key)
	if err != nil {
		return err
	}
	if m.kind != cmProbe || m.from >= p.size || m.from == p.self || m.to != p.self || m.size != p.size ||
		m.toIncarnation != p.incarnation {
		return errNoProbe
	}
	dest := p.dests[m.from]
	if dest == nil {
		a, err := parseAddress(m.address)
		if err != nil || a.incarnation != m.fromIncarnation {
			return errNoProbe
		}
		d, err := p.qp.Dest(a.rails[0])
		if err != nil {
			return err
		}
		dest = &d
		p.dests[m.from] = dest
	}
	answer := cmMessage{
		kind: cmAlive, from: p.self, to: m.from, size: p.size, epoch: m.epoch, fromIncarnation: p.incarnation,
		toIncarnation: m.fromIncarnation, nextSeq: m.nextSeq, rails: p.addr[1], address: p.addr,
	}
	bytes := len(answer.append(b[:0], &key))
	err = p.qp.SendTo(p.wrID(slot|answerID), verbs.Signaled, *dest, p.mr.SGE(int(slot)*cmSlotBytes, bytes))
	if err != nil {
		return err
	}
	return p.qp.Ring()
}

func (p *responder) wrID(i uint32) uint64 { return uint64(p.generation)<<32 | uint64(i) }

// post posts a slot for the next probe.
func (p *responder) post(slot uint32) error {
	return p.qp.Recv(p.wrID(slot), p.mr.SGE(int(slot)*cmSlotBytes, cmSlotBytes))
}

func (p *responder) postAll() error {
	for i := range uint32(p.slots) {
		if err := p.post(i); err != nil {
			return err
		}
	}
	return nil
}

// recover makes the queue pair usable after it has failed. See connManager.recover.
func (p *responder) recover() error {
	if err := p.rail.restartUD(p.qp); err != nil {
		return fmt.Errorf("recover the queue pair for probes: %w", err)
	}
	p.generation++
	p.failed = false
	return p.postAll()
}
