package proto

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// hostilePeer is an engine with operations of all kinds in progress, and a peer that sends it
// arbitrary messages.
type hostilePeer struct {
	t     testing.TB
	e     *Engine
	d     fabric.Domain
	ep    fabric.Endpoint
	words []uint64
	bufs  [][]byte // of receives, with guard bytes
	rooms []int
	hs    []Handle
}

func newHostilePeer(t testing.TB, w wrap) *hostilePeer {
	t.Helper()
	tr := w(mem.NewHub(2).Transport())
	h := &hostilePeer{t: t, e: openOne(t, tr, 0, 2, func(c *Config) { c.UnexpectedLimit = 1 << 16 })}
	h.d, h.ep = bareProcess(t, tr)
	if p, ok := h.d.(fabric.CooperativeCopier); ok {
		h.words = p.Words(0, false)
	}
	h.e.Contexts().SetHints(testContext, Hints{ExactLength: true, Epoch: 1, EagerLimit: -1, Peers: []int32{0, 1}})
	h.e.receives.countEpoch(1, wire.Envelope{Context: testContext, Epoch: 1}) // so that receives send RTRs
	for i, room := range []int{0, 10, 20000, 70000, 70000} {
		b := guarded(room)
		h.bufs, h.rooms = append(h.bufs, b), append(h.rooms, room)
		h.hs = append(h.hs, h.e.Irecv(from(1, int32(i)), b[:room]))
	}
	for i, size := range []int{10, 20000, 70000} {
		for _, mode := range []Mode{Standard, Synchronous} {
			s, err := h.e.Isend(to(0, 1, int32(i)), make([]byte, size), mode)
			if err != nil {
				t.Fatal(err)
			}
			h.hs = append(h.hs, s)
		}
	}
	h.hs = append(h.hs, h.e.SendInit(to(0, 1, 1), oneBlock(make([]byte, 30000)), Standard),
		h.e.RecvInit(from(1, 7), oneBlock(make([]byte, 10))))
	return h
}

// word returns a word of a message: a valid id, one near to it, or an absurd value.
func (h *hostilePeer) word(b byte) uint64 {
	if n := int(b); n < 4*len(h.hs) {
		return h.hs[n/4].r.id() + []uint64{0, 0, 0, 1}[n%4]
	}
	absurd := []uint64{
		0, 1, 2, 3, 8, 63, 64, 16384, 69999, 70000, 70001, 1 << 20, 1 << 31, 1 << 32, 1<<40 | 1, 1 << 47, 1 << 63, wire.NoWord,
	}
	return absurd[int(b)%len(absurd)]
}

// send sends the message that seven bytes describe.
func (h *hostilePeer) send(b [7]byte) {
	k := wire.Kind(b[0] % byte(wire.KindCount+1))
	v := wire.Envelope{Kind: k, Context: testContext, Match: Match{Rank: 1, Tag: int32(b[1] % 8)}}
	if b[1]/64 != 0 && k.HasEpoch() {
		v.Epoch = uint32(b[1] / 64)
	}
	switch b[1] / 8 % 8 {
	case 0:
		v.Rank = int32(b[2]) - 100
	case 1:
		v.Context = uint32(b[2])
	case 2:
		v.Tag = int32(b[2]) << 24
	}
	var w []uint64
	if k < wire.KindCount {
		for i := range k.Words() {
			w = append(w, h.word(b[2+i]))
		}
	}
	head, n := wire.Header(v, w...)
	payload := make([]byte, int(b[6])*int(b[5]%64))
	if k > wire.FirstFrag && k != wire.Frag && k != wire.Data && b[6] < 250 {
		payload = nil
	}
	if b[6] == 1 {
		n -= n % 8 / 4 * 4
		n = max(0, n-int(b[5])%20)
	}
	if len(h.words) > 0 && b[6]%4 == 2 {
		atomic.StoreUint64(&h.words[int(b[5])%len(h.words)], h.word(b[4])<<(b[3]%33))
	}
	for h.ep.Send(head[:n], payload) == fabric.ErrAgain {
		if !h.poll() {
			return
		}
	}
	h.poll()
}

// poll polls both sides, and reports whether the engine has not failed.
func (h *hostilePeer) poll() bool {
	var evs [8]fabric.Event
	if _, err := h.d.Poll(evs[:]); err != nil {
		h.t.Fatal(err)
	}
	_, err := h.e.Requests().PollCompleted(h.hs[len(h.hs)-1])
	for range 8 { // PollCompleted makes no progress if the request has completed
		h.e.lock()
		err = h.e.poller.pollOnce()
		h.e.unlock()
	}
	return err == nil
}

// end checks that no byte outside of the buffers was written, and that no call hangs after the
// engine has failed.
func (h *hostilePeer) end() {
	h.e.Processes().Abort(fabric.ErrCorrupt)
	for _, x := range h.hs {
		_, _ = h.e.Requests().Wait(x) // must return; the result does not matter
	}
	for i, b := range h.bufs {
		if slices.ContainsFunc(b[h.rooms[i]:], func(x byte) bool { return x != guard }) {
			h.t.Errorf("bytes behind buffer %d were written", i)
		}
	}
}

var hostileWraps = []wrap{
	variant{}.wrap, variant{pairing: true}.wrap, variant{noRead: true}.wrap, variant{pairing: true, refuse: true}.wrap,
	variant{fragments: true}.wrap, variant{fragments: true, pairing: true, measured: true}.wrap,
}

// TestHostile: a peer sends messages that no correct peer sends, made from correct ones.
func TestHostile(t *testing.T) {
	seed := soaktest.Seed(t)
	c := rand.New(rand.NewPCG(seed, 0))
	for round := range 800 {
		h := newHostilePeer(t, hostileWraps[round%len(hostileWraps)])
		for range 12 {
			var b [7]byte
			for i := range b {
				b[i] = byte(c.Uint32())
			}
			if c.IntN(2) == 0 { // for an existing request, with the right source and tag
				b[1] |= 0xc0
				b[2], b[3] = byte(c.IntN(4*len(h.hs))), byte(c.IntN(4*len(h.hs)))
			}
			h.send(b)
		}
		h.end()
	}
}

func FuzzHostile(f *testing.F) {
	f.Add([]byte{0, 1, 24, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 7, 24, 24, 0, 0, 0, 0, 7, 24, 24, 0, 0, 0, 0})
	f.Add([]byte{1, 5, 0xc0, 32, 12, 60, 60, 70, 5, 0xc0, 32, 12, 60, 60, 70})
	f.Add([]byte{2, 8, 0xc0, 24, 12, 70, 0, 0, 8, 0xc0, 24, 12, 70, 0, 0})
	f.Add([]byte{4, 3, 2, 7, 0, 0, 40, 200, 9, 2, 0, 0, 0, 50, 200})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || len(b) > 400 {
			return
		}
		h := newHostilePeer(t, hostileWraps[int(b[0])%len(hostileWraps)])
		for b = b[1:]; len(b) >= 7; b = b[7:] {
			h.send([7]byte(b))
		}
		h.end()
	})
}

// TestForeign: messages of one peer about a request with another peer are rejected, and do not
// change the request.
func TestForeign(t *testing.T) {
	es := open(t, 3, nil, nil)
	e := es[0]
	h, err := e.Isend(to(0, 1, 1), make([]byte, 50000), Standard)
	if err != nil {
		t.Fatal(err)
	}
	e.lock()
	id := h.r.id()
	for name, accepted := range map[string]bool{
		"FIN":         e.sends.handleFIN(2, [5]uint64{id}),
		"DataRequest": e.sends.handleDataRequest(2, [5]uint64{id, 1, 100}),
		"Assist":      e.sends.handleAssist(2, [5]uint64{id, 1, 0, 0, 100}),
	} {
		if accepted || h.r.state != active {
			t.Errorf("%s of another peer was accepted", name)
		}
	}
	e.unlock()
	if _, err := es[1].Recv(from(0, 1), make([]byte, 50000)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Requests().Wait(h); err != nil {
		t.Fatal(err)
	}
}
