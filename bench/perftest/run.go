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

// Test is a measurement of one size.
type Test struct {
	Op         string `json:"op"`
	Device     string `json:"device"`   // "": the first one that works
	Provider   string `json:"provider"` // as in [verbs.Options]
	Size       int    `json:"size"`     // bytes of a message
	Iterations int    `json:"iterations"`
	Settings
}

// Role is the role of one of the two processes.
type Role string

// The roles. The client begins, and its figure is the result.
const (
	Server Role = "server"
	Client Role = "client"
)

// receives is how many receives are posted at the same time. It is perftest's default.
const receives = 512

// side is one of the two processes.
type side struct {
	Test
	op     Op // the operation with the name in Test
	client bool

	dev            *verbs.Context
	sendCQ, recvCQ *verbs.CQ
	qp             *verbs.QP
	mr             *verbs.MR
	buf            []byte
	half           int          // offset of the second half of buf
	out, in        verbs.SGE    // the halves of buf: out is sent; a SEND or a peer's WRITE arrives in in
	remote         verbs.Remote // in of the peer

	post      func(id uint64, f verbs.Flags) error
	postTimes []uint64 // when each message was posted, in ticks
	wc        [16]verbs.WC
	yield     pollyield.Timer

	elapsed      time.Duration // duration of the loop
	elapsedTicks uint64        // the same in ticks
}

// Run measures as one of two processes. It uses conn to communicate with the Run of the other process. The figure is in
// microseconds, or in MB/s if the operation is a rate. The figure of the server is 0.
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
		return fmt.Errorf("unknown role %q: want %s or %s", role, Client, Server)
	case !s.op.Takes(s.Size):
		return fmt.Errorf("%s does not support messages of %d bytes", s.Test.Op, s.Size)
	case s.Iterations < 2 || s.Depth < 1 || s.Moderation < 1 || s.Moderation > s.Depth || s.Inline < 0:
		return fmt.Errorf("%d iterations, depth %d, moderation %d, inline %d: want at least 2 iterations, "+
			"and a moderation between 1 and the depth", s.Iterations, s.Depth, s.Moderation, s.Inline)
	}
	return nil
}

// loop runs the timed loop of the operation. The table of operations does not name the loops, so that
// a program that only reads the table does not contain them.
func (s *side) loop() error {
	switch {
	case s.op.rate:
		return s.stream()
	case s.op.verb == send:
		return s.sendPingPong()
	case s.op.verb == write:
		return s.writePingPong()
	}
	return s.sequential()
}

// open creates everything that does not need the peer.
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
	const page = 4096 // both halves begin at a page boundary, as in perftest: Go aligns buffers of two or more pages
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
	s.postTimes = make([]uint64, s.Iterations)
	for i := 0; s.op.verb == send && i < min(receives, s.Iterations); i++ {
		if err := s.qp.Recv(uint64(i), s.in); err != nil {
			return err
		}
	}
	return nil
}

// choosePost sets post to the function that posts the request of the operation.
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

// peerInfo is what each process sends to the other.
type peerInfo struct {
	Address []byte // of the queue pair
	Memory  verbs.Remote
}

// measure connects to the peer and runs the loop.
func (s *side) measure(to *json.Encoder, from *json.Decoder) error {
	exchange := func(mine, theirs any) (err error) { // the client sends first
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
			return fmt.Errorf("exchange data with the peer: %w", err)
		}
		return nil
	}
	address, err := s.qp.Address()
	if err != nil {
		return err
	}
	mine, theirs := peerInfo{Memory: s.mr.Remote(s.half)}, peerInfo{}
	if mine.Address, err = address.MarshalBinary(); err != nil {
		return err
	}
	if err := exchange(mine, &theirs); err != nil {
		return err
	}
	s.remote = theirs.Memory
	if err := s.connect(theirs.Address); err != nil {
		return err
	}
	var ready, done bool
	runtime.GC() // now, so that it does not run during the loop
	if err := exchange(true, &ready); err != nil {
		return err
	}
	if s.client || !s.op.passive {
		began, first := time.Now(), ticks.Now()
		if err := s.loop(); err != nil {
			return err
		}
		s.elapsed, s.elapsedTicks = time.Since(began), ticks.Now()-first
	}
	return exchange(true, &done)
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

// figure returns the result. It must be called after the loop.
func (s *side) figure() float64 {
	if !s.client {
		return 0
	}
	if s.op.rate {
		return float64(s.Iterations) * float64(s.Size) / 1e6 / s.elapsed.Seconds()
	}
	intervals := make([]uint64, s.Iterations-1)
	for i := range intervals {
		intervals[i] = s.postTimes[i+1] - s.postTimes[i]
	}
	slices.Sort(intervals)
	const micro = 1e6
	return float64(intervals[len(intervals)/2]) / float64(s.elapsedTicks) * s.elapsed.Seconds() * micro / float64(s.op.messages)
}
