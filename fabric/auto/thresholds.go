package auto

import (
	"cmp"

	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// Thresholds are lengths in bytes that decide how messages travel. They must be the same at every process. 0 leaves a length to
// the environment variable named with its field, and then to the transport. docs/transports.md lists defaults and bounds.
type Thresholds struct {
	// ShmStream is shm.Transport.Stream. IBRUN_SHM_STREAM.
	ShmStream int
	// ShmRing is shm.Transport.Ring. IBRUN_SHM_RING.
	ShmRing int
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

// threshold is a field of [Thresholds] and its description.
type threshold struct {
	*tunables.Tunable
	value *int
}

// fields returns all fields of t with their descriptions.
func (t *Thresholds) fields() []threshold {
	return []threshold{
		{&tunables.ShmStream, &t.ShmStream}, {&tunables.ShmRing, &t.ShmRing}, {&tunables.TCPEager, &t.TCPEager},
		{&tunables.TCPPush, &t.TCPPush}, {&tunables.RDMAEager, &t.RDMAEager}, {&tunables.RDMAStream, &t.RDMAStream},
		{&tunables.RDMAInline, &t.RDMAInline}, {&tunables.RDMAPiece, &t.RDMAPiece},
	}
}

// Set sets those thresholds that are not 0. They override the environment.
func (n *Node) Set(t Thresholds) {
	set := t.fields()
	for i, f := range n.Thresholds.fields() {
		*f.value = cmp.Or(*set[i].value, *f.value)
	}
}

// settings returns RDMA's thresholds as package rdma takes them.
func (t Thresholds) settings() rdma.Settings {
	return rdma.Settings{Eager: t.RDMAEager, Stream: t.RDMAStream, Inline: t.RDMAInline, Piece: t.RDMAPiece}
}

// check reports an invalid threshold, also of a transport that will not be opened: otherwise the error would appear on some
// machines only, or look like an RDMA device that cannot be used.
func (n *Node) check() error {
	for _, f := range n.Thresholds.fields() {
		if err := f.CheckThreshold(*f.value); err != nil {
			return err
		}
	}
	if !n.allows(transports.RDMA) {
		return nil
	}
	_, err := n.Thresholds.settings().Complete()
	return err
}
