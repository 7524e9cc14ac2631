package rxe

// QueueBuf is struct rxe_queue_buf, the head of a ring; the slots follow. Both indices are masked. The ring is empty when they
// are equal and full when the producer is one behind the consumer. Each stands on cache lines of its own.
type QueueBuf struct {
	Log2ElemSize  uint32 // log2_elem_size: of the bytes from slot to slot
	IndexMask     uint32 // index_mask: number of slots minus one
	_             [30]uint32
	ProducerIndex uint32 // producer_index
	_             [31]uint32
	ConsumerIndex uint32 // consumer_index
	_             [31]uint32
}

// MmapInfo is struct mminfo: where in the device's file a ring is mapped. Each may be mapped once.
type MmapInfo struct {
	Offset uint64 // offset
	Size   uint32 // size
	_      [4]byte
}

// SendWQE is struct rxe_send_wqe. Fields that the program does not set are zero; the driver changes them while it works.
type SendWQE struct {
	WR          SendWR  // wr
	Status      uint32  // status
	State       uint32  // state
	IOVA        uint64  // iova: the remote address once more
	Mask        uint32  // mask
	FirstPSN    uint32  // first_psn
	LastPSN     uint32  // last_psn
	AckLength   uint32  // ack_length
	SSN         uint32  // ssn
	HasRdAtomic uint32  // has_rd_atomic
	DMA         DMAInfo // dma
}

// RecvWQE is struct rxe_recv_wqe.
type RecvWQE struct {
	WRID uint64 // wr_id
	_    [8]byte
	DMA  DMAInfo // dma
}

// SendWR is struct rxe_send_wr.
type SendWR struct {
	WRID      uint64 // wr_id
	_         [4]byte
	Opcode    uint32     // opcode
	SendFlags uint32     // send_flags
	Ex        uint32     // ex: immediate data in network order, or the key to invalidate
	Op        [15]uint64 // wr: by opcode an RDMA, Atomic, UD or MW
}

// RDMA is wr.rdma of struct rxe_send_wr: of writes and reads.
type RDMA struct {
	RemoteAddr uint64 // remote_addr
	RKey       uint32 // rkey
	_          [4]byte
}

// Atomic is wr.atomic of struct rxe_send_wr.
type Atomic struct {
	RemoteAddr uint64 // remote_addr
	CompareAdd uint64 // compare_add
	Swap       uint64 // swap
	RKey       uint32 // rkey
	_          [4]byte
}

// UD is wr.ud of struct rxe_send_wr: of datagrams. Kernels before 5.16 do not have AHNum and read AV.
type UD struct {
	RemoteQPN  uint32 // remote_qpn
	RemoteQKey uint32 // remote_qkey
	PKeyIndex  uint16 // pkey_index
	_          [2]byte
	AHNum      uint32 // ah_num, as CREATE_AH answered
	_          [16]byte
	AV         AV // av
}

// MW is wr.mw of struct rxe_send_wr: of the binding of a memory window.
type MW struct {
	Addr   uint64 // addr
	Length uint64 // length
	MRLKey uint32 // mr_lkey
	MWRKey uint32 // mw_rkey: the window's key so far
	RKey   uint32 // rkey: the new one
	Access uint32 // access
}

// DMAInfo is struct rxe_dma_info: how much there is to move. SGEs or inline bytes follow.
type DMAInfo struct {
	Length    uint32 // length, in bytes
	Resid     uint32 // resid, the same at first
	CurSGE    uint32 // cur_sge
	NumSGE    uint32 // num_sge
	SGEOffset uint32 // sge_offset
	_         [4]byte
}

// SGE is struct rxe_sge.
type SGE struct {
	Addr   uint64 // addr
	Length uint32 // length
	LKey   uint32 // lkey
}

// Network types of an AV.
const (
	NetworkIPv4 = 1 // RXE_NETWORK_TYPE_IPV4
	NetworkIPv6 = 2 // RXE_NETWORK_TYPE_IPV6
)

// AV is struct rxe_av, an address vector.
type AV struct {
	PortNum     uint8       // port_num
	NetworkType uint8       // network_type
	DMAC        [6]byte     // dmac
	GRH         GlobalRoute // grh
	SGIDAddr    [28]byte    // sgid_addr: a sockaddr_in or sockaddr_in6
	DGIDAddr    [28]byte    // dgid_addr, the same
}

// GlobalRoute is struct rxe_global_route.
type GlobalRoute struct {
	DGID         [2]uint64 // dgid, in network order
	FlowLabel    uint32    // flow_label
	SGIDIndex    uint8     // sgid_index
	HopLimit     uint8     // hop_limit
	TrafficClass uint8     // traffic_class
	_            byte
}
