package rdma

import (
	"github.com/ibrun/ibrun/verbs"
)

// office sends and receives the datagrams.
type office struct {
	mem   []byte // greetSlots to receive, then greetSends to send
	mr    *verbs.MR
	idle  []uint32   // slots from which nothing is being sent
	life  uint32     // how often the queue pair was made to work again: what completes of an earlier life is nothing any more
	sick  bool       // the queue pair has failed: what was sent found the link down
	heard []greeting // what has arrived and was not acted upon
}

const (
	routeBytes = 40 // before every datagram, the device's
	paperBytes = (routeBytes + maxGreeting + 63) &^ 63
)

func (o *office) open(r *rail) (err error) {
	if o.mem, err = mapMemory((greetSlots + greetSends) * paperBytes); err != nil {
		return err
	}
	if o.mr, err = r.pd.Register(o.mem, verbs.LocalWrite); err != nil {
		return err
	}
	for i := range uint32(greetSlots) {
		if err := o.expect(r, i); err != nil {
			return err
		}
	}
	o.rest()
	return nil
}

// rest has all slots to send from be idle.
func (o *office) rest() {
	o.idle = o.idle[:0]
	for i := range uint32(greetSends) {
		o.idle = append(o.idle, greetSlots+i)
	}
}

// id is what a slot is posted with.
func (o *office) id(i uint32) uint64 { return uint64(o.life)<<32 | uint64(i) }

func (o *office) paper(i uint32) []byte { return o.mem[i*paperBytes:][:paperBytes:paperBytes] }

// expect posts a slot for the next datagram.
func (o *office) expect(r *rail, i uint32) error {
	return r.posted.Recv(o.id(i), o.mr.SGE(int(i)*paperBytes, paperBytes))
}

// arrived takes a datagram. It is acted upon later, since that may take down connections over which more has arrived.
func (o *office) arrived(d *domain, wc *verbs.WC) {
	i := uint32(wc.ID)
	if wc.ID != o.id(i) {
		return
	}
	if wc.Status != verbs.StatusSuccess {
		o.sick = true // it will be posted again with all others
		return
	}
	if wc.Len > routeBytes && wc.Len <= paperBytes {
		// What is no greeting of this job may be anybody's, and is nobody's concern.
		if g, err := parseGreeting(o.paper(i)[routeBytes:wc.Len], &d.key); err == nil {
			g.address = append([]byte(nil), g.address...)
			o.heard = append(o.heard, g)
		}
	}
	_ = o.expect(d.rails[0], i) // a device that is gone says so when it is polled
}

// read acts on what has arrived.
func (o *office) read(d *domain) error {
	for len(o.heard) > 0 {
		g := o.heard[0]
		if o.heard = o.heard[1:]; len(o.heard) == 0 {
			o.heard = nil
		}
		if err := d.greeted(&g); err != nil {
			return err
		}
	}
	return nil
}

// send sends a greeting. The error is that there is no way to the peer; it will be tried again, as what is lost on the way
// is sent again.
func (o *office) send(d *domain, e *endpoint, g *greeting) error {
	r := d.rails[0]
	if e.dest == nil {
		dest, err := r.posted.Dest(e.at.rails[0])
		if err != nil {
			return err
		}
		e.dest = &dest
	}
	if len(o.idle) == 0 {
		return nil
	}
	i := o.idle[len(o.idle)-1]
	n := len(g.append(o.paper(i)[:0], &d.key))
	if err := r.posted.SendTo(o.id(i), verbs.Signaled, *e.dest, o.mr.SGE(int(i)*paperBytes, n)); err != nil {
		return err
	}
	o.idle = o.idle[:len(o.idle)-1]
	return r.posted.Ring()
}

// sent takes back a slot from which a datagram was sent.
func (o *office) sent(wc *verbs.WC) {
	i := uint32(wc.ID)
	if wc.ID != o.id(i) {
		return
	}
	o.idle = append(o.idle, i)
	o.sick = o.sick || wc.Status != verbs.StatusSuccess
}

// heal has a queue pair that has failed work again. It keeps its number, by which peers know it. On the way it forgets what was
// queued, of which some has completed already and the rest never does: all is posted anew.
func (o *office) heal(r *rail) error {
	err := r.posted.Modify(verbs.Attr{State: verbs.StateReset}, verbs.AttrState)
	if err != nil {
		return err
	}
	init := verbs.Attr{State: verbs.StateInit, Port: uint8(r.port), QKey: r.qkey}
	if err = r.posted.Modify(init, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrQKey); err != nil {
		return err
	}
	if err = r.posted.Start(); err != nil {
		return err
	}
	o.life++
	o.rest()
	for i := range uint32(greetSlots) {
		if err := o.expect(r, i); err != nil {
			return err
		}
	}
	o.sick = false
	return nil
}
