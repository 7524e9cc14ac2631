// Package ib is the interface between package verbs and the providers, which reach the devices. A provider is a [Provider], and
// everything that it opens implements one of the interfaces below. There are two providers: rxe (the kernel ABI itself) and
// libibverbs (the installed library, loaded at run time).
//
// Handles, keys, masks and enumerations are plain numbers with the values of ib_user_verbs.h (package internal/abi names them),
// and a completion has the kernel's layout, so that no provider converts one. Package verbs gives them types, names and checks.
// A provider may rely on these guarantees:
//
//   - no call for an object is made after its Close, and children are closed before their parents;
//   - Post and Ring, Recv and RecvList, and Poll of one object are each called by one goroutine at a time. This does not apply
//     to Notify and to calls that create, modify, query or close;
//   - lists are within the limits that creation returned, and an atomic operation has one entry of eight bytes;
//   - memory does not move until its region is closed.
//
// A provider wraps errors with the name of the failed call. They unwrap to the [syscall.Errno].
//
// Queues that a process shares with the rxe driver are concrete types here: [SendRing], [RecvRing] and [CompletionRing]. An
// object that has them implements an interface of optional.go. Package verbs then posts and polls with direct calls.
package ib

import (
	"errors"

	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// ErrFull is returned by Post and Recv if the queue has no free slot. Nothing was queued then.
var ErrFull = errors.New("queue full")

// Provider reaches devices: by the kernel ABI or by a library. Its methods may be called by any goroutine.
type Provider interface {
	// Name returns the name by which users select the provider.
	Name() string
	// Open opens the device. If the provider cannot reach it, the error contains the remedy.
	Open(Device) (Context, error)
}

// Device is the information about a device that a provider needs to open it.
type Device = uverbs.Device

// Context is an open device. Its methods may be called by any goroutine.
type Context interface {
	// QueryDevice returns the capabilities.
	QueryDevice() (DeviceAttr, error)
	// QueryPort returns the state of a port, numbered from 1.
	QueryPort(port int) (PortAttr, error)
	// QueryGIDs returns the GIDs of all ports, without empty entries.
	QueryGIDs() ([]GID, error)
	// QueryPKey returns an entry of a port's P_Key table.
	QueryPKey(port, index int) (uint16, error)

	// AllocPD allocates a protection domain.
	AllocPD() (PD, error)
	// CreateChannel creates a completion channel.
	CreateChannel() (Channel, error)
	// CompVectors returns the number of completion vectors.
	CompVectors() int
	// CreateCQ creates a completion queue of at least n entries, whose events arrive by the completion vector with the given
	// number. The channel may be nil.
	CreateCQ(n int, ch Channel, vector int) (CQ, error)

	// AsyncFD returns a non-blocking descriptor from which events are read, 16-byte struct ib_uverbs_async_event_desc. The element
	// of an event is the token of the object or the number of the port. The context owns the descriptor.
	AsyncFD() int
	// AckAsync acknowledges one event of the object with this token, so that its Close need not wait for that.
	AckAsync(eventType uint32, token uint64)
	// Close destroys the object.
	Close() error
}

// PD is a protection domain. Its methods may be called by any goroutine.
type PD interface {
	// RegMR registers length bytes at addr. Peers address them from iova on.
	RegMR(addr, length, iova uint64, access uint32) (MR, error)
	// AllocMW allocates a memory window. kind is an enum ib_mw_type.
	AllocMW(kind uint8) (MW, error)
	// CreateQP creates a queue pair in state RESET.
	CreateQP(QPInit) (QP, error)
	// CreateSRQ creates a shared receive queue. An event is raised when fewer than limit receives are queued.
	CreateSRQ(wr, sge, limit uint32) (SRQ, error)
	// CreateAH creates an address handle.
	CreateAH(AHAttr) (AH, error)
	// Close destroys the object.
	Close() error
}

// MR is a memory region.
type MR interface {
	// Keys returns the keys by which local and remote work requests name the region.
	Keys() (lkey, rkey uint32)
	// Rereg changes the attributes that the flags (enum ib_mr_rereg_flags) select. The keys may change. After an error the region is
	// either unchanged or closed by the kernel.
	Rereg(flags uint32, pd PD, addr, length, iova uint64, access uint32) error
	// Close destroys the object.
	Close() error
}

// MW is a memory window.
type MW interface {
	// RKey returns the current key.
	RKey() uint32
	// Close destroys the object.
	Close() error
}

// AH is an address handle.
type AH interface {
	// Close destroys the object.
	Close() error
}

// Channel is a completion channel: a non-blocking descriptor from which the 8-byte tokens of completion queues are read. The
// channel owns the descriptor.
type Channel interface {
	// FD returns the descriptor.
	FD() int
	// Close destroys the object.
	Close() error
}

// CQ is a completion queue.
type CQ interface {
	// Len returns the capacity in entries.
	Len() int
	// Token returns the number by which events name the queue.
	Token() uint64
	// Poll takes up to len(wc) completions and returns their number. It makes no system call and allocates nothing.
	Poll(wc []WC) (int, error)
	// Notify requests one event on the channel for the next completion, or for the next solicited or failed one.
	Notify(solicited bool) error
	// AckEvents acknowledges n events that were read from the channel, so that Close need not wait for that.
	AckEvents(n int)
	// Resize changes the capacity to at least n. It is never called concurrently with Poll.
	Resize(n int) error
	// Close destroys the object.
	Close() error
}

// QP is a queue pair. Post, Ring and Recv allocate nothing and do not keep their arguments.
type QP interface {
	// Num returns the number of the object on the device.
	Num() uint32
	// Token returns the number by which events name the object.
	Token() uint64
	// Cap returns the granted sizes, which are at least the requested ones.
	Cap() Cap
	// Post writes one work request into the send queue, or returns ErrFull. The device sees it at the next Ring at the latest.
	Post(*SendWR) error
	// Ring rings the doorbell: the device reads everything that was posted. With rxe it is a system call.
	Ring() error
	// Recv queues one receive, or returns ErrFull. The device sees it immediately. Recv is not called if the pair has an SRQ.
	Recv(id uint64, sge []SGE) error
	// RecvList is Recv of several receives. It returns how many of them, the first ones, were queued. If these are not all, the
	// error says why.
	RecvList(list []RecvWR) (int, error)
	// Modify changes the attributes that the mask (enum ib_qp_attr_mask) selects.
	Modify(a *QPAttr, mask uint32) error
	// Query returns the attributes that the mask selects.
	Query(mask uint32) (QPAttr, error)
	// AttachMulticast makes the pair receive datagrams to a multicast group.
	AttachMulticast(gid [16]byte, lid uint16) error
	// DetachMulticast ends AttachMulticast.
	DetachMulticast(gid [16]byte, lid uint16) error
	// Close destroys the object.
	Close() error
}

// SRQ is a shared receive queue.
type SRQ interface {
	// Num returns the number of the object on the device.
	Num() uint32
	// Token returns the number by which events name the object.
	Token() uint64
	// Cap returns the granted sizes.
	Cap() (wr, sge uint32)
	// Recv queues one receive, or returns ErrFull. The device sees it immediately.
	Recv(id uint64, sge []SGE) error
	// RecvList is RecvList of [QP].
	RecvList(list []RecvWR) (int, error)
	// Modify changes the attributes that the mask (enum ib_srq_attr_mask) selects.
	Modify(mask, wr, limit uint32) error
	// Query returns the current sizes and the limit.
	Query() (wr, sge, limit uint32, err error)
	// Close destroys the object.
	Close() error
}
