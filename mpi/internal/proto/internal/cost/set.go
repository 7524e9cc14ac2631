package cost

import "github.com/ibrun/ibrun/mpi/internal/protocols"

// Set has a bit for each of its protocols.
type Set uint8

// SetOf returns the set of some protocols.
func SetOf(ps ...protocols.Protocol) (s Set) {
	for _, p := range ps {
		s |= 1 << p
	}
	return s
}

// Measurable are the protocols of messages that are measured.
const Measurable Set = 1<<protocols.Fragmented | 1<<protocols.RendezvousRead | 1<<protocols.RendezvousShared

// Has reports whether p is in the set.
func (s Set) Has(p protocols.Protocol) bool { return s>>p&1 != 0 }

// after returns the protocol of s that follows p, cyclically. s is not empty.
func (s Set) after(p protocols.Protocol) protocols.Protocol {
	for {
		if p = (p + 1) % protocols.Count; s.Has(p) {
			return p
		}
	}
}
