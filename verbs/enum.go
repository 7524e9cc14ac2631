package verbs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/internal/abi/uverbs"
)

// QPType is the transport of a queue pair.
type QPType uint8

// Transports.
const (
	RC = QPType(uverbs.QPTRC) // reliable connection: each message arrives once, in order, and is acknowledged
	UC = QPType(uverbs.QPTUC) // unreliable connection: messages may be lost
	UD = QPType(uverbs.QPTUD) // unreliable datagrams of at most one path MTU, to any peer
)

// String returns RC, UC or UD.
func (t QPType) String() string {
	return nameOf(uint64(t), "type", map[uint64]string{uint64(RC): "RC", uint64(UC): "UC", uint64(UD): "UD"})
}

// State is the state of a queue pair.
type State uint8

// States. Receives may be posted from StateInit on, sends from StateRTS on.
const (
	StateReset = State(uverbs.QPSReset)
	StateInit  = State(uverbs.QPSInit)
	StateRTR   = State(uverbs.QPSRTR) // ready to receive
	StateRTS   = State(uverbs.QPSRTS) // ready to send
	StateSQD   = State(uverbs.QPSSQD) // send queue drained
	StateSQE   = State(uverbs.QPSSQE) // send queue in error
	StateErr   = State(uverbs.QPSErr)
)

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// String returns the standard's name of the state, such as RTS.
func (s State) String() string { return nameIn(stateNames[:], uint64(s), "state") }

// MTU is a path MTU as a number of the kernel's enumeration.
type MTU uint8

// Path MTUs, named by the payload of a packet in bytes.
const (
	MTU256  = MTU(uverbs.MTU256)
	MTU512  = MTU(uverbs.MTU512)
	MTU1024 = MTU(uverbs.MTU1024)
	MTU2048 = MTU(uverbs.MTU2048)
	MTU4096 = MTU(uverbs.MTU4096)
)

// Bytes returns the payload of a packet, or 0 for an invalid MTU.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// String returns the number of bytes.
func (m MTU) String() string {
	if n := m.Bytes(); n > 0 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("MTU %d", uint8(m))
}

// Access is a set of access rights to memory, or through a queue pair.
type Access uint32

// Access flags. Reading locally is always allowed. RemoteWrite and RemoteAtomic need LocalWrite.
const (
	LocalWrite   = Access(uverbs.AccessLocalWrite)
	RemoteWrite  = Access(uverbs.AccessRemoteWrite)
	RemoteRead   = Access(uverbs.AccessRemoteRead)
	RemoteAtomic = Access(uverbs.AccessRemoteAtomic)
	BindMW       = Access(uverbs.AccessMWBind)    // memory windows may be bound to it
	ZeroBased    = Access(uverbs.AccessZeroBased) // peers use offsets in place of addresses
	OnDemand     = Access(uverbs.AccessOnDemand)  // pages are not pinned; the device faults them in
	HugeTLB      = Access(uverbs.AccessHugeTLB)   // the memory consists of huge pages

	// RelaxedOrdering lets the bus reorder what the device writes to the memory, which some processors and virtual machines need
	// for full speed. A completion is written after the data that it is about. So read the memory after polling the completion of
	// the receive or READ, or of a later receive from the writer. Do not poll the memory itself. Devices without support ignore it.
	RelaxedOrdering = Access(uverbs.AccessRelaxedOrdering)
)

// optionalAccess are flags that a device may ignore.
const optionalAccess = Access(uverbs.AccessOptionalRange)

// String returns the names of the flags, joined by "|".
func (a Access) String() string {
	return flagNames(uint64(a), []flagName{
		{uint64(LocalWrite), "LocalWrite"}, {uint64(RemoteWrite), "RemoteWrite"}, {uint64(RemoteRead), "RemoteRead"},
		{uint64(RemoteAtomic), "RemoteAtomic"}, {uint64(BindMW), "BindMW"}, {uint64(ZeroBased), "ZeroBased"},
		{uint64(OnDemand), "OnDemand"}, {uint64(HugeTLB), "HugeTLB"}, {uint64(RelaxedOrdering), "RelaxedOrdering"},
	})
}

// Flags are options of a request that is posted to a send queue.
type Flags uint32

// Flags of requests.
const (
	Fence        = Flags(uverbs.SendFence)     // wait for earlier READs and atomic operations
	Signaled     = Flags(uverbs.SendSignaled)  // make a completion also on success
	Solicited    = Flags(uverbs.SendSolicited) // the receiver's completion makes an event for [CQ.Notify] with solicited
	RingDoorbell = Flags(1 << 31)              // ring the doorbell after this post; cheaper than [QP.Ring]
)

// Opcode is the operation of a request for a send queue.
type Opcode uint32

// Opcodes of requests.
const (
	OpWrite           = Opcode(uverbs.WRRDMAWrite)
	OpWriteImm        = Opcode(uverbs.WRRDMAWriteWithImm)
	OpSend            = Opcode(uverbs.WRSend)
	OpSendImm         = Opcode(uverbs.WRSendWithImm)
	OpRead            = Opcode(uverbs.WRRDMARead)
	OpCompareSwap     = Opcode(uverbs.WRAtomicCmpAndSwp)
	OpFetchAdd        = Opcode(uverbs.WRAtomicFetchAndAdd)
	OpLocalInvalidate = Opcode(uverbs.WRLocalInv)
	OpBindMW          = Opcode(uverbs.WRBindMW)
	OpSendInvalidate  = Opcode(uverbs.WRSendWithInv)
)

var opcodeNames = [...]string{"WRITE", "WRITE with immediate", "SEND", "SEND with immediate", "READ", "COMPARE AND SWAP",
	"FETCH AND ADD", "LOCAL INVALIDATE", "BIND WINDOW", "SEND with invalidate"}

// String returns the standard's name of the operation, such as "SEND with immediate".
func (o Opcode) String() string { return nameIn(opcodeNames[:], uint64(o), "opcode") }

// WCOpcode is the operation of a completed request.
type WCOpcode uint32

// Opcodes of completions.
const (
	WCSend            = WCOpcode(uverbs.WCSend)
	WCWrite           = WCOpcode(uverbs.WCRDMAWrite)
	WCRead            = WCOpcode(uverbs.WCRDMARead)
	WCCompareSwap     = WCOpcode(uverbs.WCCompSwap)
	WCFetchAdd        = WCOpcode(uverbs.WCFetchAdd)
	WCBindMW          = WCOpcode(uverbs.WCBindMW)
	WCLocalInvalidate = WCOpcode(uverbs.WCLocalInv)
	WCRecv            = WCOpcode(uverbs.WCRecv)
	WCRecvWriteImm    = WCOpcode(uverbs.WCRecvRDMAWithImm) // a WRITE with immediate consumed a receive
)

var wcOpcodeNames = map[uint64]string{
	uint64(WCSend): "SEND", uint64(WCWrite): "WRITE", uint64(WCRead): "READ", uint64(WCCompareSwap): "COMPARE AND SWAP",
	uint64(WCFetchAdd): "FETCH AND ADD", uint64(WCBindMW): "BIND WINDOW", uint64(WCLocalInvalidate): "LOCAL INVALIDATE",
	uint64(WCRecv): "RECEIVE", uint64(WCRecvWriteImm): "RECEIVE of a WRITE with immediate",
}

// String returns the standard's name of the operation, such as RECEIVE.
func (o WCOpcode) String() string { return nameOf(uint64(o), "opcode", wcOpcodeNames) }

// WCFlags are properties of the completion of a receive.
type WCFlags uint32

// Flags of completions.
const (
	WithGRH        = WCFlags(uverbs.WCGRH)     // datagrams only: the first 40 bytes received are a global route header
	WithImm        = WCFlags(uverbs.WCWithImm) // there is immediate data
	WithInvalidate = WCFlags(uverbs.WCWithInv) // a key was invalidated
)

// MWType is the type of a memory window.
type MWType uint8

// Types of memory windows.
const (
	MWType1 = MWType(uverbs.MWType1) // usable through every queue pair of the protection domain
	MWType2 = MWType(uverbs.MWType2) // usable through the queue pair that bound it; peers can invalidate it
)

// PortState is the state of a port.
type PortState uint8

// States of a port. Only an active one carries traffic.
const (
	PortDown   = PortState(uverbs.PortDown)
	PortInit   = PortState(uverbs.PortInit)
	PortArmed  = PortState(uverbs.PortArmed)
	PortActive = PortState(uverbs.PortActive)
)

var portStateNames = [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}

// String returns the kernel's name of the state, such as ACTIVE.
func (s PortState) String() string { return nameIn(portStateNames[:], uint64(s), "state") }

// EventType is the type of an asynchronous event, see [Context.NextEvent].
type EventType uint32

// Asynchronous events. Most belong to one object, which is in [Event]. Events of a port have its number.
const (
	EventCQError        = EventType(uverbs.EventCQErr) // the queue overran
	EventQPFatal        = EventType(uverbs.EventQPFatal)
	EventQPRequestError = EventType(uverbs.EventQPReqErr)    // a request of the peer was invalid
	EventQPAccessError  = EventType(uverbs.EventQPAccessErr) // a request of the peer violated access rights
	EventCommEst        = EventType(uverbs.EventCommEst)     // a packet arrived in state RTR
	EventSQDrained      = EventType(uverbs.EventSQDrained)
	EventPathMigrated   = EventType(uverbs.EventPathMig)
	EventPathMigError   = EventType(uverbs.EventPathMigErr)
	EventDeviceFatal    = EventType(uverbs.EventDeviceFatal) // the device was lost
	EventPortActive     = EventType(uverbs.EventPortActive)
	EventPortError      = EventType(uverbs.EventPortErr) // the link is down
	EventLIDChange      = EventType(uverbs.EventLIDChange)
	EventPKeyChange     = EventType(uverbs.EventPKeyChange)
	EventSMChange       = EventType(uverbs.EventSMChange)
	EventSRQError       = EventType(uverbs.EventSRQErr)
	EventSRQLimit       = EventType(uverbs.EventSRQLimitReached)  // fewer receives than the limit are queued; the limit is now 0
	EventLastWQE        = EventType(uverbs.EventQPLastWQEReached) // the pair takes no more receives from its SRQ
	EventReregister     = EventType(uverbs.EventClientReregister)
	EventGIDChange      = EventType(uverbs.EventGIDChange)
	EventWQFatal        = EventType(uverbs.EventWQFatal)
)

var eventNames = [...]string{"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG",
	"PATH_MIG_ERR", "DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR",
	"SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL"}

// String returns the kernel's name of the event, such as PORT_ERR.
func (t EventType) String() string { return nameIn(eventNames[:], uint64(t), "event") }

// nameIn returns the name with the index v, or the word what and the number.
func nameIn(names []string, v uint64, what string) string {
	if v < uint64(len(names)) {
		return names[v]
	}
	return what + " " + strconv.FormatUint(v, 10)
}

// nameOf returns the name of v, or the word what and the number.
func nameOf(v uint64, what string, names map[uint64]string) string {
	if n, ok := names[v]; ok {
		return n
	}
	return what + " " + strconv.FormatUint(v, 10)
}

type flagName struct {
	bit  uint64
	name string
}

// flagNames joins the names of the bits that are set. Bits without a name are written as a number.
func flagNames(v uint64, names []flagName) string {
	var set []string
	for _, n := range names {
		if v&n.bit != 0 {
			set = append(set, n.name)
			v &^= n.bit
		}
	}
	if v != 0 || len(set) == 0 {
		set = append(set, fmt.Sprintf("%#x", v))
	}
	return strings.Join(set, "|")
}
