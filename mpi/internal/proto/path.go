package proto

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/perf"
)

// path is what all peers that one domain reaches have in common.
type path struct {
	domain      fabric.Domain
	caps        fabric.Caps
	thresholds  protocols.Thresholds
	cooperative bool // domain is a fabric.CooperativeCopier
	packedPiece int  // payload of each message of data in parts, if sent immediately in several
	transport   perf.Transport
	regs        *regcache.Cache          // of memory that peers access; nil: none is registered
	retransmits fabric.RetransmitCounter // nil if the domain does not implement it
	reconnects  fabric.ReconnectCounter  // nil if the domain does not implement it
	multiRail   fabric.MultiRail         // nil if the domain does not implement it
}

// copiedPiece is the payload of each message of data in parts where this process copies it. It is
// so short that the receiver unpacks most of it while the rest is packed, and so long that the
// messages themselves cost little.
const copiedPiece = 8 << 10

func newPath(d fabric.Domain, pinned int) (*path, error) {
	x := &path{domain: d, caps: d.Caps()}
	x.transport = perf.TransportNamed(x.caps.Transport)
	x.retransmits, _ = d.(fabric.RetransmitCounter)
	x.reconnects, _ = d.(fabric.ReconnectCounter)
	x.multiRail, _ = d.(fabric.MultiRail)
	var err error
	if x.thresholds, err = protocols.ThresholdsOf(x.caps); err != nil {
		return nil, err
	}
	x.packedPiece = x.thresholds.FragmentSize
	if _, x.cooperative = d.(fabric.CooperativeCopier); x.cooperative {
		x.packedPiece = min(x.packedPiece, copiedPiece)
	}
	if x.caps.Read && !x.caps.Direct {
		x.regs = regcache.New(d, pinned)
	}
	return x, nil
}

// acquire registers memory with the device, if that is necessary, until the memory is released.
func (x *path) acquire(b []byte) (regcache.Memory, error) {
	if x.regs != nil {
		return x.regs.Acquire(b)
	}
	r, err := x.domain.Register(b)
	return regcache.Memory{Remote: r.Remote, Local: r}, err
}

// canCopyInstead reports whether an error of registration means that the bytes must be copied. It
// warns the user once.
func (l *links) canCopyInstead(err error) bool {
	if errors.Is(err, fabric.ErrNotSupported) { // its device is lost, and another domain takes over
		return true
	}
	if !errors.Is(err, regcache.ErrNoRoom) && !errors.Is(err, regcache.ErrNotRegistrable) {
		return false
	}
	if !l.warned && l.warn != nil {
		l.warn(fmt.Sprintf("large messages are copied instead of being moved by the device, which is slower: %v", err))
	}
	l.warned = true
	return true
}
