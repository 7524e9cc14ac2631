package rc

import (
	"github.com/ibrun/ibrun/verbs"
)

// office sends and receives the datagrams.
type office struct {
	mem   []byte // greetSlots to receive, then greetSends to send
	mr    *verbs.MR
	idle  []uint32   // slots from which nothing is being sent
	away  []uint32   // slots to receive that the queue pair has given back since it failed
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
	for i := range uint32(greetSends) {
		o.idle = append(o.idle, greetSlots+i)
	}
	return nil
}

func (o *office) paper(i uint32) []byte { return o.mem[i*paperBytes:][:paperBytes:paperBytes] }

// expect posts a slot for the next datagram.
func (o *office) expect(r *rail, i uint32) error {
	return r.posted.Recv(uint64(i), o.mr.SGE(int(i)*paperBytes, paperBytes))
}

// arrived takes a datagram. It is acted upon later, since that may take down connections over which more has arrived.
func (o *office) arrived(d *domain, wc *verbs.WC) {
	i := uint32(wc.ID)
	if wc.Status != verbs.StatusSuccess {
		o.sick, o.away = true, append(o.away, i)
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
	if err := r.posted.SendTo(uint64(i), verbs.Signaled, *e.dest, o.mr.SGE(int(i)*paperBytes, n)); err != nil {
		return err
	}
	o.idle = o.idle[:len(o.idle)-1]
	return r.posted.Ring()
}

// sent takes back a slot from which a datagram was sent.
func (o *office) sent(wc *verbs.WC) {
	o.idle = append(o.idle, uint32(wc.ID))
	o.sick = o.sick || wc.Status != verbs.StatusSuccess
}

// heal has a queue pair that has failed work again. It keeps its number, by which peers know it.
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
	for len(o.away) > 0 {
		if err := o.expect(r, o.away[len(o.away)-1]); err != nil {
			return err
		}
		o.away = o.away[:len(o.away)-1]
	}
	o.sick = false
	return nil
}
