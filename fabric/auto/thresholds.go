package auto

import (
	"cmp"
	"fmt"

	"github.com/ibrun/ibrun/fabric/rc"
)

// Thresholds are lengths in bytes that decide how messages travel, the same at every process. A field that is 0 leaves its
// length to the environment variable that is named with it, and then to the transport.
type Thresholds struct {
	// ShmStream is shm.Transport.Stream. IBRUN_SHM_STREAM.
	ShmStream int
	// TCPEager is tcp.Transport.Eager. IBRUN_TCP_EAGER.
	TCPEager int
	// RDMAEager is rc.Settings.Eager. IBRUN_RC_EAGER.
	RDMAEager int
	// RDMAStream is rc.Settings.Stream. IBRUN_RC_STREAM.
	RDMAStream int
	// RDMAInline is rc.Settings.Inline. IBRUN_RC_INLINE.
	RDMAInline int
	// RDMAPiece is rc.Settings.Piece. IBRUN_RC_PIECE.
	RDMAPiece int
}

// over returns t with what it leaves open taken from below.
func (t Thresholds) over(below Thresholds) Thresholds {
	return Thresholds{
		ShmStream:  cmp.Or(t.ShmStream, below.ShmStream),
		TCPEager:   cmp.Or(t.TCPEager, below.TCPEager),
		RDMAEager:  cmp.Or(t.RDMAEager, below.RDMAEager),
		RDMAStream: cmp.Or(t.RDMAStream, below.RDMAStream),
		RDMAInline: cmp.Or(t.RDMAInline, below.RDMAInline),
		RDMAPiece:  cmp.Or(t.RDMAPiece, below.RDMAPiece),
	}
}

// Set sets those thresholds that are not 0, whatever the environment says.
func (n *Node) Set(t Thresholds) { n.Thresholds = t.over(n.Thresholds) }

// settings are those of RDMA.
func (t Thresholds) settings() rc.Settings {
	return rc.Settings{Eager: t.RDMAEager, Stream: t.RDMAStream, Inline: t.RDMAInline, Piece: t.RDMAPiece}
}

// check refuses what no transport would look at before it is used.
func (t Thresholds) check() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"ShmStream", t.ShmStream}, {"TCPEager", t.TCPEager}, {"RDMAEager", t.RDMAEager}, {"RDMAStream", t.RDMAStream},
		{"RDMAInline", t.RDMAInline}, {"RDMAPiece", t.RDMAPiece},
	} {
		if f.value < 0 {
			return fmt.Errorf("%w: Thresholds.%s is %d", ErrLength, f.name, f.value)
		}
	}
	return nil
}
