package core

import (
	"errors"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// sendFails is a Peer whose second Isend fails. It records what is cancelled.
type sendFails struct {
	coll.Peer
	started, cancelled []coll.Handle
	sends              int
}

var errSend = errors.New("the send fails")

func (p *sendFails) start() coll.Handle {
	h := coll.Handle{A: uint64(len(p.started) + 1), B: 1}
	p.started = append(p.started, h)
	return h
}

func (p *sendFails) Irecv(int, []byte) (coll.Handle, error) { return p.start(), nil }

func (p *sendFails) Isend(int, []byte) (coll.Handle, error) {
	if p.sends++; p.sends == 2 {
		return coll.Handle{}, errSend
	}
	return p.start(), nil
}

func (p *sendFails) Cancel(hs []coll.Handle) { p.cancelled = append(p.cancelled, hs...) }

// TestPairwiseFails: if a message cannot be sent, all that were started are cancelled, so that a late
// message is not stored in the buffer of the program after the call has returned.
func TestPairwiseFails(t *testing.T) {
	p := new(sendFails)
	y := &interCall{g: p, remote: side{first: 2, n: 3}}
	block := func(int) []byte { return make([]byte, 8) }
	if err := y.pairwise(block, block); err != errSend {
		t.Errorf("got %v, want %v", err, errSend)
	}
	if len(p.started) != 4 || p.sends != 2 || !slices.Equal(p.cancelled, p.started) {
		t.Errorf("%d sends; started %v, cancelled %v", p.sends, p.started, p.cancelled)
	}
}
