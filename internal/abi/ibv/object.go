package ibv

// What the library hands out. Its structs go on with a mutex, whose size differs between processors and C libraries, so here they
// end before it: nothing behind is needed.

// Device is struct ibv_device.
type Device struct {
	_             [16]byte
	NodeType      int32     // node_type
	TransportType int32     // transport_type
	Name          [64]byte  // name: as in /sys/class/infiniband, ended by a zero
	DevName       [64]byte  // dev_name: as in /dev/infiniband
	DevPath       [256]byte // dev_path
	IBDevPath     [256]byte // ibdev_path
}

// Context is the head of struct ibv_context, up to mutex.
type Context struct {
	Device         uintptr    // device
	Ops            ContextOps // ops
	CmdFD          int32      // cmd_fd
	AsyncFD        int32      // async_fd
	NumCompVectors int32      // num_comp_vectors
	_              [4]byte
}

// ContextOps is struct ibv_context_ops: addresses of the driver's functions. Those that are inline in the header, and so in no
// library, are reached through it.
type ContextOps struct {
	_           [7]uintptr
	AllocMW     uintptr // alloc_mw: (pd, type) mw
	BindMW      uintptr // bind_mw: (qp, mw, *MWBind) errno
	DeallocMW   uintptr // dealloc_mw: (mw) errno
	_           uintptr
	PollCQ      uintptr // poll_cq: (cq, n, *WC) number, negative for an error
	ReqNotifyCQ uintptr // req_notify_cq: (cq, solicited) errno
	_           [7]uintptr
	PostSRQRecv uintptr // post_srq_recv: (srq, *RecvWR, **RecvWR) errno
	_           [4]uintptr
	PostSend    uintptr // post_send: (qp, *SendWR, **SendWR) errno
	PostRecv    uintptr // post_recv: (qp, *RecvWR, **RecvWR) errno
	_           [5]uintptr
}

// PD is struct ibv_pd.
type PD struct {
	Context uintptr // context
	Handle  uint32  // handle
	_       [4]byte
}

// MR is struct ibv_mr.
type MR struct {
	Context uintptr // context
	PD      uintptr // pd
	Addr    uintptr // addr
	Length  uintptr // length
	Handle  uint32  // handle
	LKey    uint32  // lkey
	RKey    uint32  // rkey
	_       [4]byte
}

// MW is struct ibv_mw.
type MW struct {
	Context uintptr // context
	PD      uintptr // pd
	RKey    uint32  // rkey
	Handle  uint32  // handle
	Type    uint32  // type
	_       [4]byte
}

// AH is struct ibv_ah.
type AH struct {
	Context uintptr // context
	PD      uintptr // pd
	Handle  uint32  // handle
	_       [4]byte
}

// CompChannel is struct ibv_comp_channel.
type CompChannel struct {
	Context uintptr // context
	FD      int32   // fd
	Refcnt  int32   // refcnt
}

// CQ is the head of struct ibv_cq, up to mutex.
type CQ struct {
	Context   uintptr // context
	Channel   uintptr // channel
	CQContext uintptr // cq_context
	Handle    uint32  // handle
	CQE       int32   // cqe: the capacity
}

// QP is the head of struct ibv_qp, up to mutex.
type QP struct {
	Context   uintptr // context
	QPContext uintptr // qp_context
	PD        uintptr // pd
	SendCQ    uintptr // send_cq
	RecvCQ    uintptr // recv_cq
	SRQ       uintptr // srq
	Handle    uint32  // handle
	QPNum     uint32  // qp_num
	State     uint32  // state
	QPType    uint32  // qp_type
}

// SRQ is the head of struct ibv_srq, up to mutex.
type SRQ struct {
	Context    uintptr // context
	SRQContext uintptr // srq_context
	PD         uintptr // pd
	Handle     uint32  // handle
	_          [4]byte
}
