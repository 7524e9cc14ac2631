package rdma

import (
	"fmt"
	"math"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

const (
	firstPause = 10 * time.Millisecond  // before a request to connect is sent again
	lastPause  = 500 * time.Millisecond // what that grows to
	beatPause  = 500 * time.Millisecond
	mostMissed = 5  // beats without a sign of life after which a peer is lost
	light      = 2  // requests that a beat may wait behind
	ladenBeats = 20 // what mostMissed is behind more, which loss of packets holds up, and then the connection is made again
	mostBeats  = 60 // how long the peer may take to answer when a connection has broken
	never      = time.Duration(math.MaxInt64)
)

// The clock is looked at about every lookPause, which is often enough for all that waits for a time: in some virtual machines it
// is a device, and reading it takes longer than all else that a Poll does. So many Polls lie between two looks as that takes, but
// not more than a program that rarely polls can do without.
const (
	lookPause   = 250 * time.Microsecond
	leastStride = 64
	mostStride  = 1024
)

// clock looks at the clock, and sets when it is looked at again.
func (d *domain) clock() time.Duration {
	now := time.Since(d.began)
	switch since := now - d.now; {
	case since < lookPause:
		d.stride = min(max(2*d.stride, leastStride), mostStride)
	case since > 4*lookPause:
		d.stride = leastStride
	}
	d.now, d.due = now, d.turn+d.stride
	return now
}

// tick does what is to be done by now.
func (d *domain) tick(now time.Duration) {
	if now < d.next {
		return
	}
	d.next = never
	beating := now >= d.beat
	if beating {
		d.beat = now + beatPause
	}
	if d.office.sick && d.office.heal(d.rails[0]) != nil {
		d.next = min(d.next, now+lastPause) // the link is still down
	}
	calling := d.calling
	d.calling = nil
	for _, e := range calling {
		switch {
		case e.hands.phase == phaseAsking, e.hands.phase == phaseAnswered && e.patience > 0:
			d.callLater(e)
			d.wait(e, now, beating)
		case e.hands.phase == phaseIdle && e.refused > 0 && e.ended.Load() == nil && now >= e.again:
			d.ask(e)
		case e.hands.phase == phaseIdle && e.refused > 0 && e.ended.Load() == nil:
			d.callLater(e)
			d.next = min(d.next, e.again)
		}
	}
	live := d.live[:0]
	for _, e := range d.live {
		if e.hands.phase == phaseUp {
			live = append(live, e)
			if beating {
				d.listen(e)
			}
			if e.bye == byeDue {
				d.tryNotice(e, kindBye)
			}
		} else {
			e.listed = false
		}
	}
	clear(d.live[len(live):])
	d.live = live
	if len(live) > 0 || len(d.calling) > 0 {
		d.next = min(d.next, d.beat)
	}
}

// wait sees to a peer that was asked to connect, or was answered and has sent nothing since.
func (d *domain) wait(e *endpoint, now time.Duration, beat bool) {
	if beat && e.patience > 0 && e.refused == 0 {
		if e.patience--; e.patience == 0 {
			d.lose(e, fmt.Errorf("fabric/rdma: peer %d: %w: it does not answer since its connection broke", e.peer,
				fabric.ErrPeerDown))
			return
		}
	}
	if e.hands.phase == phaseAnswered {
		return // who asked asks again
	}
	if now >= e.again {
		d.call(e, now)
	}
	d.next = min(d.next, e.again)
}

// listen looks for a sign of life of a peer that is connected, and asks its device for one.
func (d *domain) listen(e *endpoint) {
	if d.stuck(e) {
		return
	}
	if e.alive {
		e.alive, e.missed = false, 0
		return
	}
	if !e.beating {
		d.mu.Lock()
		q := e.queues[0]
		laden := q.pieces > 0 || q.watch > 0 && q.under() > light // else what is left does not report, and is done
		err := q.qp.Write(q.id(q.tail), verbs.Signaled, verbs.Remote{})
		if err == nil {
			q.push(record{work: workBeat}, verbs.Signaled)
			d.under[0]++
		}
		d.mu.Unlock()
		if err != nil {
			return // the pair has failed, and its completions tell
		}
		e.beating, e.laden = true, laden
		e.ring()
		return
	}
	e.missed++
	if e.laden && e.missed >= ladenBeats {
		d.broke(e, fmt.Errorf("queue pair %d: %w", e.queues[0].pair.num, verbs.StatusRetryExceeded))
	} else if !e.laden && e.missed >= mostMissed {
		d.lose(e, fmt.Errorf("fabric/rdma: peer %d: %w: its device has not answered for %v", e.peer, fabric.ErrPeerDown,
			time.Duration(e.missed)*beatPause))
	}
}

// stuck looks for queue pairs that have failed and do not say so: Soft-RoCE does not always complete what was posted to one.
func (d *domain) stuck(e *endpoint) bool {
	d.mu.Lock()
	queues, moving, idle := e.queues, e.first != nil, false
	for _, q := range queues {
		idle = idle || (moving || q.under() > 0) && q.seen == q.head
		q.seen = q.head
		q.pacer.beat()
	}
	d.mu.Unlock()
	if !idle {
		return false
	}
	for _, q := range queues {
		if s, err := q.qp.State(); err != nil || s == verbs.StateErr {
			d.broke(e, fmt.Errorf("queue pair %d: %w", q.pair.num, verbs.ErrState))
			return true
		}
	}
	return false
}
