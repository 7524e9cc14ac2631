package auto

import (
	"cmp"
	"fmt"
	"math"

	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/fabric/tcp"
)

// Thresholds are lengths in bytes that decide how messages travel, the same at every process. A field that is 0 leaves its
// length to the environment variable that is named with it, and then to the transport.
type Thresholds struct {
	// ShmStream is shm.Transport.Stream. IBRUN_SHM_STREAM.
	ShmStream int
	// TCPEager is tcp.Transport.Eager. IBRUN_TCP_EAGER.
	TCPEager int
	// TCPPush is tcp.Transport.Push. IBRUN_TCP_PUSH.
	TCPPush int
	// RDMAEager is rdma.Settings.Eager. IBRUN_RDMA_EAGER.
	RDMAEager int
	// RDMAStream is rdma.Settings.Stream. IBRUN_RDMA_STREAM.
	RDMAStream int
	// RDMAInline is rdma.Settings.Inline. IBRUN_RDMA_INLINE.
	RDMAInline int
	// RDMAPiece is rdma.Settings.Piece. IBRUN_RDMA_PIECE.
	RDMAPiece int
}

// over returns t with what it leaves open taken from below.
func (t Thresholds) over(below Thresholds) Thresholds {
	return Thresholds{
		ShmStream:  cmp.Or(t.ShmStream, below.ShmStream),
		TCPEager:   cmp.Or(t.TCPEager, below.TCPEager),
		TCPPush:    cmp.Or(t.TCPPush, below.TCPPush),
		RDMAEager:  cmp.Or(t.RDMAEager, below.RDMAEager),
		RDMAStream: cmp.Or(t.RDMAStream, below.RDMAStream),
		RDMAInline: cmp.Or(t.RDMAInline, below.RDMAInline),
		RDMAPiece:  cmp.Or(t.RDMAPiece, below.RDMAPiece),
	}
}

// Set sets those thresholds that are not 0, whatever the environment says.
func (n *Node) Set(t Thresholds) { n.Thresholds = t.over(n.Thresholds) }

// settings are those of RDMA.
func (t Thresholds) settings() rdma.Settings {
	return rdma.Settings{Eager: t.RDMAEager, Stream: t.RDMAStream, Inline: t.RDMAInline, Piece: t.RDMAPiece}
}

// check refuses what makes no sense, also for transports that will not be opened: it would else show on other machines only,
// or as RDMA that cannot be used and is left alone.
func (n *Node) check() error {
	t := n.Thresholds
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"ShmStream", t.ShmStream, math.MaxInt32}, {"TCPEager", t.TCPEager, new(tcp.Transport).Caps().Eager},
		{"TCPPush", t.TCPPush, tcp.PushBytes}, {"RDMAEager", t.RDMAEager, math.MaxInt32},
		{"RDMAStream", t.RDMAStream, math.MaxInt32}, {"RDMAInline", t.RDMAInline, math.MaxInt32},
		{"RDMAPiece", t.RDMAPiece, math.MaxInt32},
	} {
		if f.value < 0 || f.value > f.most {
			return fmt.Errorf("%w: Thresholds.%s is %d; it may be 1 to %d", ErrLength, f.name, f.value, f.most)
		}
	}
	if !n.may("rdma") {
		return nil
	}
	_, err := t.settings().Complete()
	return err
}
