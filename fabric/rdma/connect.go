package rdma

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// trouble is a connection that is to be taken down, once everything that has arrived over it was taken.
type trouble struct {
	e    *endpoint
	q    *queue // the first of the connection
	err  error
	lost bool // the peer is lost for good; otherwise it is connected to again
}

// lose gives a peer up.
func (d *domain) lose(e *endpoint, err error) {
	d.troubles, d.calm = append(d.troubles, trouble{e, e.mainQueue(), err, true}), 0
}

// broke has a connection be made again.
func (d *domain) broke(e *endpoint, err error) {
	d.troubles, d.calm = append(d.troubles, trouble{e, e.mainQueue(), err, false}), 0
}

// mainQueue is the queue pair that carries messages, nil without a connection. Only who polls makes and closes them, so it
// needs no lock.
func (e *endpoint) mainQueue() *queue {
	if len(e.queues) == 0 {
		return nil
	}
	return e.queues[0]
}

// settle sees to what troubles there are.
func (d *domain) settle() error {
	for len(d.troubles) > 0 {
		t := d.troubles[0]
		d.troubles = slices.Delete(d.troubles, 0, 1)
		ended := t.e.ended.Load() != nil
		if !t.lost && !ended && (t.q == nil || t.q != t.e.mainQueue()) {
			continue // that connection has been taken down: it can break in more than one way at once
		}
		if err := d.takeDown(t.e); err != nil {
			return err
		}
		switch {
		case t.lost:
			d.gone(t.e, t.err)
		case ended:
			d.endTransfers(t.e, errEnd.err)
			d.part(t.e)
		default:
			d.reconnect(t.e, t.err)
		}
	}
	return nil
}

// gone ends an endpoint whose peer is lost.
func (d *domain) gone(e *endpoint, err error) {
	if e.ended.CompareAndSwap(nil, &failure{err}) {
		d.endTransfers(e, err)
		d.inbox.put(item{kind: fabric.PeerDown, e: e, err: err})
	}
	d.part(e)
}

// part frees what is kept of a peer that nothing more is exchanged with. Its queue pairs have been closed.
func (d *domain) part(e *endpoint) {
	for _, r := range e.unsent {
		d.sends.give(r.slot)
	}
	e.unsent = nil
	if e.in.window > 0 {
		d.saved -= int(e.in.window) + 1 - e.lentOut
		e.in.window = 0
	}
	e.hands.broken()
	e.bye = byeDone
}

// maxTries is how many connections in a row may break before anything has come over them.
const maxTries = 24

// reconnect asks for a new connection in place of one that was taken down.
func (d *domain) reconnect(e *endpoint, err error) {
	e.hands.broken()
	if e.tries++; e.tries > maxTries {
		d.gone(e, fmt.Errorf("fabric/rdma: peer %d: %w: %d connections broke, the last by: %w", e.peer, fabric.ErrPeerDown,
			e.tries, err))
		return
	}
	if errors.Is(err, verbs.StatusRetryExceeded) {
		d.mu.Lock()
		e.ahead /= 4
		d.mu.Unlock()
	}
	e.patience = mostBeats
	e.want()
}

// takeDown takes what has come over a connection, and closes its queue pairs. Messages that were not acknowledged are kept.
func (d *domain) takeDown(e *endpoint) error {
	d.mu.Lock()
	queues := e.queues
	e.up = false
	d.mu.Unlock()
	if queues == nil {
		return nil
	}
	for _, q := range queues {
		_ = q.qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState) // what it cannot prevent ends with its Close
	}
	if err := d.drain(); err != nil {
		return err
	}
	var unsent []record
	d.mu.Lock()
	for i, q := range queues {
		d.byNum.remove(q.rail, q.pair.num)
		d.under[i] -= q.under()
		for q.under() > 0 {
			switch r := q.pop(); r.work {
			case workMessage:
				unsent = append(unsent, r)
			case workNotice, workBye:
				d.sends.give(r.slot)
			case workKeys:
				d.scraps = append(d.scraps, r.slot)
			}
		}
	}
	e.unsent = append(unsent, e.unsent...) // what there was before has not been sent again yet
	d.restart(e)
	e.up = false // once more: the first message may have come only now
	e.queues, e.ahead = nil, queues[0].pacer.ahead
	d.mu.Unlock()
	e.beating, e.mute, e.in.unheard = false, false, false
	for _, q := range queues {
		if err := q.qp.Close(); err != nil {
			return fmt.Errorf("fabric/rdma: %w", err)
		}
	}
	return nil
}

// drain takes all that has arrived and all that was done.
func (d *domain) drain() error {
	for {
		n, err := d.rails[0].got.Poll(d.wcs[:])
		for i := range d.wcs[:n] {
			d.arrived(&d.wcs[i])
		}
		if err != nil {
			return fmt.Errorf("fabric/rdma: %w", err)
		}
		if n == 0 {
			break
		}
	}
	for _, r := range d.rails {
		for n := 1; n > 0; {
			var err error
			if n, err = d.complete(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// connectWanted asks those peers to connect that were to be sent something.
func (d *domain) connectWanted() {
	d.mu.Lock()
	d.wants.Store(false)
	wanting := d.wanting
	d.wanting = nil
	for _, e := range wanting {
		e.wanted = false
	}
	d.mu.Unlock()
	for _, e := range wanting {
		if e.hands.phase == phaseIdle && e.ended.Load() == nil {
			d.ask(e)
		}
	}
}

// ask begins to connect.
func (d *domain) ask(e *endpoint) {
	now := time.Since(d.began)
	err := d.makeQueues(e, e.hands.epoch+1)
	if errors.Is(err, verbs.ErrUnreachable) && e.refused < mostRefused {
		e.refused++
		e.again = now + lastPause
		d.next = min(d.next, e.again)
		d.callLater(e)
		return
	}
	if err != nil {
		d.gone(e, fmt.Errorf("fabric/rdma: connect to peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
		return
	}
	e.hands.ask(e.queues[0].pair)
	e.in.told = e.in.grant() // whichever of the requests arrives
	e.pause = firstPause
	d.callLater(e)
	d.call(e, now)
}

// callLater has the clock see to a peer that is to be connected to.
func (d *domain) callLater(e *endpoint) {
	if !slices.Contains(d.calling, e) {
		d.calling = append(d.calling, e)
	}
}

// mostRefused is how often in a row there may be no way to a peer, because the link is down or there is no route, before it
// is taken to be lost: half a minute and more.
const mostRefused = 60

// call sends a request, and sees that it is sent again.
func (d *domain) call(e *endpoint, now time.Duration) {
	if err := d.greet(e, saidAsk, pair{}); err == nil {
		e.refused = 0
	} else if e.refused++; e.refused >= mostRefused {
		d.lose(e, fmt.Errorf("fabric/rdma: connect to peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
	}
	e.again = now + e.pause
	e.pause = min(2*e.pause, lastPause)
	d.next = min(d.next, e.again)
}

// greet sends a greeting. If it is lost, as datagrams may be, so is what it was to lead to, until it is sent again.
func (d *domain) greet(e *endpoint, what said, asked pair) error {
	g := greeting{
		kind: what, from: uint32(d.self), to: uint32(e.peer), size: uint32(d.size), epoch: e.hands.epoch,
		mine: d.incarnation, theirs: e.at.incarnation, expect: e.in.taken, grant: e.in.told,
		rails: uint8(len(d.rails)), asked: asked, address: d.addr, keys: d.keys,
	}
	for i, q := range e.queues {
		g.pairs[i] = q.pair
	}
	if what == saidBye {
		g.grant = e.out.sent
	}
	return d.office.send(d, e, &g)
}

// say is greet for what answers a request. One that cannot be sent is as good as lost on the way: the request will come
// again.
func (d *domain) say(e *endpoint, what said, asked pair) { _ = d.greet(e, what, asked) }

// greeted acts on a greeting.
func (d *domain) greeted(g *greeting) error {
	if g.from >= uint32(d.size) || g.from == uint32(d.self) || g.size != uint32(d.size) || g.theirs != d.incarnation {
		return nil
	}
	e := d.way(int(g.from))
	if e.at.rails == nil {
		at, err := parseAddress(g.address)
		if err != nil || at.incarnation != g.mine || d.meets(at) != nil {
			return nil
		}
		e.at, e.hands.theirs = at, at.incarnation
	}
	if g.mine != e.at.incarnation {
		return nil
	}
	if g.kind == saidBye {
		e.parting, e.final = true, g.grant
		if e.in.taken == e.final || e.hands.phase < phaseAnswered {
			d.lose(e, fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, fabric.ErrPeerClosed))
		}
		return nil
	}
	if e.ended.Load() != nil {
		if g.kind == saidAsk {
			d.say(e, saidBye, pair{})
		}
		return nil
	}
	switch e.hands.hear(g) {
	case stepAnswer:
		return d.answer(e, g)
	case stepRepeat:
		d.say(e, saidAnswer, g.pairs[0])
	case stepUp:
		if err := d.join(e, g); err != nil {
			d.broke(e, err)
			return nil
		}
		e.hands.up(g.pairs[0])
		d.stands(e)
		d.notice(e, kindHello)
	}
	return nil
}

// answer accepts a request.
func (d *domain) answer(e *endpoint, g *greeting) error {
	if e.hands.phase != phaseAsking {
		if err := d.takeDown(e); err != nil {
			return err
		}
		e.hands.broken()
		err := d.makeQueues(e, g.epoch)
		if errors.Is(err, verbs.ErrUnreachable) {
			return nil // the peer will ask again
		}
		if err != nil {
			d.gone(e, fmt.Errorf("fabric/rdma: connect to peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
			d.say(e, saidBye, pair{})
			return nil
		}
	}
	if err := d.join(e, g); err != nil {
		d.broke(e, err)
		return nil
	}
	for _, q := range e.queues {
		q.epoch = g.epoch
	}
	e.hands.answered(g, e.queues[0].pair)
	e.in.told = e.in.grant() // whichever of the answers arrives
	if g.epoch > 1 {         // a first connection is waited for without end: the peer may compute
		e.patience = mostBeats
		d.callLater(e)
		d.next = min(d.next, d.beat)
	}
	d.say(e, saidAnswer, g.pairs[0])
	return nil
}

// join connects our queue pairs to those of a greeting, and learns what the peer expects.
func (d *domain) join(e *endpoint, g *greeting) error {
	if e.out.sent-g.expect > uint32(len(e.unsent)) {
		return fmt.Errorf("%w: it expects message %d, and %d to %d were not acknowledged", fabric.ErrCorrupt, g.expect,
			e.out.sent-uint32(len(e.unsent)), e.out.sent)
	}
	if err := e.out.allow(g.grant); err != nil {
		return err
	}
	e.expect, e.keys = g.expect, g.keys
	for i, q := range e.queues {
		if err := q.qp.ConnectWith(connectable(e.at.rails[i], g.pairs[i]), d.params); err != nil {
			return err
		}
	}
	return nil
}

// makeQueues makes queue pairs for the next connection to a peer, and at first sets slots aside.
func (d *domain) makeQueues(e *endpoint, epoch uint32) error {
	if e.in.window == 0 {
		if err := d.save(firstWindow + 1); err != nil {
			return err
		}
		e.in.window = firstWindow
	}
	var queues []*queue
	for i := range min(len(d.rails), len(e.at.rails)) {
		q, err := d.rails[i].newQueue(epoch, d.set.Inline)
		if err != nil {
			for _, q := range queues {
				err = errors.Join(err, q.qp.Close())
			}
			return err
		}
		queues = append(queues, q)
	}
	d.mu.Lock()
	for _, q := range queues {
		d.byNum.set(q.rail, q.pair.num, e)
		q.pacer = newPacer(q.rail.piece)
		if e.ahead > 0 {
			q.pacer.allow(e.ahead)
		}
	}
	e.queues = queues
	d.mu.Unlock()
	return nil
}

// stands is called when a connection stands on both sides: what the peer has not got is sent again.
func (d *domain) stands(e *endpoint) {
	e.alive, e.missed, e.patience = true, 0, 0
	if !e.listed {
		e.listed = true
		d.live = append(d.live, e)
	}
	d.next = min(d.next, d.beat)
	unsent := e.unsent
	e.unsent = nil
	d.mu.Lock()
	e.up = true
	d.mu.Unlock()
	for i, r := range unsent {
		if int32(r.seq-e.expect) < 0 {
			d.sends.give(r.slot)
			continue
		}
		if _, ok := e.post(r, d.sends.slot(r.slot)[:r.bytes], depth, false); !ok {
			e.unsent = append(e.unsent, unsent[i:]...)
			d.broke(e, verbs.ErrState)
			return
		}
		d.resent++
	}
	d.mu.Lock()
	d.pump(e)
	d.mu.Unlock()
	e.ring()
}

// meets tells whether a peer's rails can be reached from ours.
func (d *domain) meets(at address) error {
	ours, theirs := d.rails[0].address, at.rails[0]
	if ours.GID.IsValid() != theirs.GID.IsValid() || ours.GID.Unmap().Is4() != theirs.GID.Unmap().Is4() {
		return fmt.Errorf("%w: our address is %v and the peer's %v, of different families", fabric.ErrNotSupported,
			ours.GID, theirs.GID)
	}
	return nil
}
