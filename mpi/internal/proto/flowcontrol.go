package proto

import "github.com/ibrun/ibrun/mpi/internal/wire"

// A receiver pauses its senders with Pause when its unexpected messages take a quarter of the bound.
// Paused senders send only RTS, whatever the length of the message, until Resume. An RTS is always
// accepted, so no sender waits until another sender's message has been received.

// setLimit sets the bound on the memory; 0 means 64 MiB. Senders are paused at a quarter of it:
// what is in the transport still arrives, and the garbage collector lets the heap grow beyond what
// is in use.
func (s *unexpectedStore) setLimit(bytes int) {
	if bytes <= 0 {
		bytes = 64 << 20
	}
	s.high, s.low = bytes/4, bytes/8
	s.blocks.SetLimit(s.high)
}

// mustPause reports whether the sender of a message that has just been stored is to be paused.
func (s *unexpectedStore) mustPause() bool { return s.held > s.high }

// mayResume reports whether senders are paused, and there is room again. low is less than high, so
// that senders are not paused and resumed for each message.
func (s *unexpectedStore) mayResume() bool { return s.held < s.low && len(s.paused) != 0 }

// pauseSender pauses a sender, unless it is paused.
func (s *unexpectedStore) pauseSender(n int32) {
	if p := s.links.peer(n); !p.pausing {
		p.pausing = true
		s.paused = append(s.paused, n)
		s.links.sendControl(n, wire.Envelope{Kind: wire.Pause})
	}
}

// resumeSenders resumes all paused senders.
func (s *unexpectedStore) resumeSenders() {
	for _, n := range s.paused {
		s.links.peer(n).pausing = false
		s.links.sendControl(n, wire.Envelope{Kind: wire.Resume})
	}
	s.paused = s.paused[:0]
}

// handlePause handles Pause and Resume. Messages that wait for room on their way to a peer that
// pauses this sender become RTS as well: they may need far more room than the peer has.
func (x *sends) handlePause(n int32, pause bool) {
	p := x.links.peer(n)
	p.paused = pause
	p.updateMaxEager()
	if !pause {
		return
	}
	for o := p.head; o != nil; o = o.next {
		if k := o.kind(); len(o.body)+o.packed.n == 0 || k > wire.FirstFrag {
			continue
		}
		if err := x.prepareRTS(o.req, p.path.thresholds.Rendezvous(o.req.size(), x.links.copier != nil), 0); err != nil {
			x.links.fail(n, err)
			return
		}
		if o.req.flags&withdrawing != 0 {
			x.sendWithdraw(o.req)
		}
	}
}
