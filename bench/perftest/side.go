package perftest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/ibrun/ibrun/internal/pollyield"
	"github.com/ibrun/ibrun/internal/ticks"
	"github.com/ibrun/ibrun/verbs"
)

// Test is one measurement of one size.
type Test struct {
	Op         string `json:"op"`
	Device     string `json:"device"`   // "" is the first that works
	Provider   string `json:"provider"` // as in [verbs.Options]
	Size       int    `json:"size"`     // bytes of a message
	Iterations int    `json:"iterations"`
	Settings
}

// Role is what one of the two processes does.
type Role string

// The roles. The client begins, and its figure counts.
const (
	Server Role = "server"
	Client Role = "client"
)

// receives are posted at the same time, by those that receive: perftest's default.
const receives = 512

// side is one of the two processes.
type side struct {
	Test
	op     Op // by its name in Test
	client bool

	dev            *verbs.Context
	sendCQ, recvCQ *verbs.CQ
	qp             *verbs.QP
	mr             *verbs.MR
	buf            []byte
	half           int          // where the second half of buf begins
	out, in        verbs.SGE    // the halves: what leaves, and where a SEND or a peer's WRITE arrives
	remote         verbs.Remote // the peer's in

	post   func(id uint64, f verbs.Flags) error
	stamps []uint64 // of the turns, in ticks
	wc     [16]verbs.WC
	yield  pollyield.Timer

	took  time.Duration // of the loop
	ticks uint64        // the same in ticks
}

// Run measures, as one of two processes. What is written to conn must be read from that of the other, in both directions.
// The figure is in microseconds, or MB/s if the operation is a rate; that of the server is 0.
func Run(t Test, role Role, conn io.ReadWriter) (figure float64, err error) {
	s := &side{Test: t, client: role == Client}
	if s.op, err = Lookup(t.Op); err != nil {
		return 0, err
	}
	if err := s.check(role); err != nil {
		return 0, err
	}
	if s.dev, err = verbs.Open(t.Device, verbs.Options{Provider: t.Provider}); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.dev.Close()) }()
	if err := s.open(); err != nil {
		return 0, err
	}
	if err := s.measure(json.NewEncoder(conn), json.NewDecoder(conn)); err != nil {
		return 0, fmt.Errorf("%s, %s: %w", t.Op, role, err)
	}
	return s.figure(), nil
}

func (s *side) check(role Role) error {
	switch {
	case role != Client && role != Server:
		return fmt.Errorf("the role is %q, not %s or %s", role, Client, Server)
	case !s.op.Takes(s.Size):
		return fmt.Errorf("%s has no messages of %d bytes", s.Test.Op, s.Size)
	case s.Iterations < 2 || s.Depth < 1 || s.Moderation < 1 || s.Moderation > s.Depth || s.Inline < 0:
		return fmt.Errorf("%d iterations, depth %d, moderation %d, inline %d: 2 iterations are needed, a moderation within the depth",
			s.Iterations, s.Depth, s.Moderation, s.Inline)
	}
	return nil
}

// open makes everything that does not need the peer.
func (s *side) open() error {
	pd, err := s.dev.AllocPD()
	if err != nil {
		return err
	}
	if s.sendCQ, err = s.dev.CreateCQ(s.Depth, nil); err != nil {
		return err
	}
	if s.recvCQ, err = s.dev.CreateCQ(receives, nil); err != nil {
		return err
	}
	const peers = verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	const page = 4096 // both halves begin at one, as those of perftest do: Go lays what has two and more at a page
	s.half = (s.Size + page - 1) / page * page
	s.buf = make([]byte, 2*s.half)
	if s.mr, err = pd.Register(s.buf, verbs.LocalWrite|peers); err != nil {
		return err
	}
	s.out, s.in = s.mr.SGE(0, s.Size), s.mr.SGE(s.half, s.Size)
	s.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.sendCQ, RecvCQ: s.recvCQ, MaxSend: s.Depth, MaxRecv: receives,
		MaxInline: s.Inline, Access: peers})
	if err != nil {
		return err
	}
	s.choosePost()
	s.stamps = make([]uint64, s.Iterations)
	for i := 0; s.op.verb == send && i < min(receives, s.Iterations); i++ {
		if err := s.qp.Recv(uint64(i), s.in); err != nil {
			return err
		}
	}
	return nil
}

// choosePost sets what posts the operation's request.
func (s *side) choosePost() {
	inline := s.Size <= s.Inline
	data := s.buf[:s.Size]
	switch s.op.verb {
	case send:
		s.post = func(id uint64, f verbs.Flags) error { return s.qp.Send(id, f, s.out) }
		if inline {
			s.post = func(id uint64, f verbs.Flags) error { return s.qp.SendInline(id, f, data) }
		}
	case write:
		s.post = func(id uint64, f verbs.Flags) error { return s.qp.Write(id, f, s.remote, s.out) }
		if inline {
			s.post = func(id uint64, f verbs.Flags) error { return s.qp.WriteInline(id, f, s.remote, data) }
		}
	case read:
		s.post = func(id uint64, f verbs.Flags) error { return s.qp.Read(id, f, s.remote, s.out) }
	case fetchAdd:
		s.post = func(id uint64, f verbs.Flags) error { return s.qp.FetchAdd(id, f, s.remote, 1, s.out) }
	}
}

// card is what the two tell each other.
type card struct {
	Address []byte // of the queue pair
	Memory  verbs.Remote
}

// measure connects to the peer and runs the loop.
func (s *side) measure(to *json.Encoder, from *json.Decoder) error {
	swap := func(mine, theirs any) (err error) { // the client speaks first
		if s.client {
			err = to.Encode(mine)
		}
		if err == nil {
			err = from.Decode(theirs)
		}
		if err == nil && !s.client {
			err = to.Encode(mine)
		}
		if err != nil {
			return fmt.Errorf("talking to the peer: %w", err)
		}
		return nil
	}
	address, err := s.qp.Address()
	if err != nil {
		return err
	}
	mine, theirs := card{Memory: s.mr.Remote(s.half)}, card{}
	if mine.Address, err = address.MarshalBinary(); err != nil {
		return err
	}
	if err := swap(mine, &theirs); err != nil {
		return err
	}
	s.remote = theirs.Memory
	if err := s.connect(theirs.Address); err != nil {
		return err
	}
	var ready, done bool
	runtime.GC() // now, so that it stays out of the loop
	if err := swap(true, &ready); err != nil {
		return err
	}
	if s.client || !s.op.quiet {
		began, first := time.Now(), ticks.Now()
		if err := s.op.loop(s); err != nil {
			return err
		}
		s.took, s.ticks = time.Since(began), ticks.Now()-first
	}
	return swap(true, &done)
}

func (s *side) connect(address []byte) error {
	var peer verbs.Address
	if err := peer.UnmarshalBinary(address); err != nil {
		return err
	}
	p := verbs.DefaultParams()
	for mtu := verbs.MTU256; mtu <= verbs.MTU4096; mtu++ {
		if mtu.Bytes() == s.MTU {
			p.MTU = mtu
		}
	}
	return s.qp.ConnectWith(peer, p)
}

// figure is called after the loop.
func (s *side) figure() float64 {
	if !s.client {
		return 0
	}
	if s.op.rate {
		return float64(s.Iterations) * float64(s.Size) / 1e6 / s.took.Seconds()
	}
	laps := make([]uint64, s.Iterations-1)
	for i := range laps {
		laps[i] = s.stamps[i+1] - s.stamps[i]
	}
	slices.Sort(laps)
	const micro = 1e6
	return float64(laps[len(laps)/2]) / float64(s.ticks) * s.took.Seconds() * micro / float64(s.op.turns)
}
