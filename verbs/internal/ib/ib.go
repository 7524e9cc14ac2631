// Package ib is the seam between package verbs and the ways of reaching a device: a provider is a value of [Provider], and
// everything it opens is one of the interfaces below. There are two providers, rxe (the kernel ABI itself) and libibverbs (the
// installed library, loaded at run time).
//
// The seam speaks the kernel's language: handles, keys, masks and enumerations are plain numbers with the values of
// ib_user_verbs.h (package internal/abi names them), and a completion has the kernel's layout, so that no provider converts
// one. Package verbs gives them types, names and checks; a provider may rely on it that
//
//   - calls for one object are never made after its Close, and children are closed before their parents;
//   - Post and Ring, Recv, and Poll of one object are each called by one goroutine at a time (not so Notify and the control
//     calls), but for what [Peeker] says;
//   - lists are within the limits that creation returned, and an atomic operation has one entry of eight bytes;
//   - memory named by an address stays where it is until its region is closed.
//
// Errors are wrapped by the provider with the name of the failed call and unwrap to the [syscall.Errno] behind it.
package ib

import (
	"errors"

	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// ErrFull is returned by Post and Recv when the queue has no free slot. Nothing was queued.
var ErrFull = errors.New("queue full")

// Provider reaches devices in one way. Its methods may be called by any goroutine.
type Provider interface {
	// Name is the word by which users choose the provider.
	Name() string
	// Open opens the device. A provider that cannot reach it says what it would need.
	Open(Device) (Context, error)
}

// Device is what a provider has to know of a device before it opens it.
type Device = uverbs.Device

// Context is an open device. Its methods may be called by any goroutine.
type Context interface {
	// QueryDevice returns the capabilities.
	QueryDevice() (DeviceAttr, error)
	// QueryPort returns the state of a port, numbered from 1.
	QueryPort(port int) (PortAttr, error)
	QueryGIDs() ([]GID, error) // of all ports, empty entries left out
	// QueryPKey returns an entry of a port's P_Key table.
	QueryPKey(port, index int) (uint16, error)

	// AllocPD makes a protection domain.
	AllocPD() (PD, error)
	// CreateChannel makes a completion channel.
	CreateChannel() (Channel, error)
	// CreateCQ makes a completion queue of at least n entries. The channel may be nil.
	CreateCQ(n int, ch Channel, vector int) (CQ, error)

	// AsyncFD is a non-blocking descriptor from which 16-byte struct ib_uverbs_async_event_desc are read; its element is the
	// token of the object or the number of the port. The context owns it.
	AsyncFD() int
	// AckAsync tells that one event for the object with this token was taken, so that its Close need not wait for it.
	AckAsync(eventType uint32, token uint64)
	// Close frees it.
	Close() error
}

// PD is a protection domain. Its methods may be called by any goroutine.
type PD interface {
	// RegMR registers length bytes at addr; peers address them from iova on.
	RegMR(addr, length, iova uint64, access uint32) (MR, error)
	// AllocMW makes a memory window of enum ib_mw_type.
	AllocMW(kind uint8) (MW, error)
	// CreateQP makes a queue pair in state RESET.
	CreateQP(QPInit) (QP, error)
	// CreateSRQ makes a shared receive queue; an event is raised below limit receives.
	CreateSRQ(wr, sge, limit uint32) (SRQ, error)
	// CreateAH makes an address handle.
	CreateAH(AHAttr) (AH, error)
	// Close frees it.
	Close() error
}

// MR is a memory region.
type MR interface {
	// Keys are what local and remote work requests name the region by.
	Keys() (lkey, rkey uint32)
	// Rereg changes what the flags (enum ib_mr_rereg_flags) name; the keys may change. After an error the region is closed or
	// unchanged, as the kernel left it.
	Rereg(flags uint32, pd PD, addr, length, iova uint64, access uint32) error
	// Close frees it.
	Close() error
}

// MW is a memory window.
type MW interface {
	// RKey is the key that it was made with.
	RKey() uint32
	// Close frees it.
	Close() error
}

// AH is an address handle.
type AH interface {
	// Close frees it.
	Close() error
}

// Channel is a completion channel: a non-blocking descriptor from which the 8-byte tokens of completion queues are read. The
// channel owns it.
type Channel interface {
	// FD is the descriptor.
	FD() int
	// Close frees it.
	Close() error
}

// CQ is a completion queue.
type CQ interface {
	Len() int // capacity in entries
	// Token is what events name it by.
	Token() uint64 // what events name it by
	// Poll takes up to len(wc) completions and returns their number, without a system call or an allocation.
	Poll(wc []WC) (int, error)
	// Notify asks for one event on the channel for the next completion, or for the next solicited or failed one.
	Notify(solicited bool) error
	// AckEvents tells that n events were read from the channel, so that Close need not wait for them.
	AckEvents(n int)
	// Resize changes the capacity to at least n. It is never called at the same time as Poll.
	Resize(n int) error
	// Close frees it.
	Close() error
}

// QP is a queue pair. Post, Ring and Recv allocate nothing and do not keep their arguments.
type QP interface {
	// Num is its number on the device.
	Num() uint32
	// Token is what events name it by.
	Token() uint64
	// Cap is what creation granted, at least what was asked for.
	Cap() Cap
	// Post writes one work request into the send queue, or returns ErrFull. The device sees it at the next Ring at the latest.
	Post(*SendWR) error
	// Ring tells the device of everything posted. It is a system call with rxe.
	Ring() error
	// Recv queues one receive, or returns ErrFull. The device sees it at once. It is not called when the pair has an SRQ.
	Recv(id uint64, sge []SGE) error
	Modify(*QPAttr, uint32) error // the mask is enum ib_qp_attr_mask
	// Query returns the attributes that the mask names.
	Query(mask uint32) (QPAttr, error)
	// AttachMulticast has the pair receive what is sent to a group.
	AttachMulticast(gid [16]byte, lid uint16) error
	// DetachMulticast ends that.
	DetachMulticast(gid [16]byte, lid uint16) error
	// Close frees it.
	Close() error
}

// SRQ is a shared receive queue.
type SRQ interface {
	// Num is its number on the device.
	Num() uint32
	// Token is what events name it by.
	Token() uint64
	// Cap is what creation granted.
	Cap() (wr, sge uint32)
	// Recv queues one receive, or returns ErrFull. The device sees it at once.
	Recv(id uint64, sge []SGE) error
	Modify(mask, wr, limit uint32) error // the mask is enum ib_srq_attr_mask
	// Query returns the present limits.
	Query() (wr, sge, limit uint32, err error)
	// Close frees it.
	Close() error
}
