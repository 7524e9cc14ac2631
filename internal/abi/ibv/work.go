package ibv

// SendWR is struct ibv_send_wr. Ex and the arrays are unions, in which the opcode says what there is.
type SendWR struct {
	WRID      uint64    // wr_id
	Next      uintptr   // next
	SGList    uintptr   // sg_list
	NumSGE    int32     // num_sge
	Opcode    uint32    // opcode
	SendFlags uint32    // send_flags
	Ex        uint32    // imm_data: in network order, or the key to invalidate
	Op        [4]uint64 // wr: an RDMA, Atomic or UD
	_         [8]byte
	Bind      BindMW // bind_mw
}

// RDMA is wr.rdma of struct ibv_send_wr: of writes and reads.
type RDMA struct {
	RemoteAddr uint64 // remote_addr
	RKey       uint32 // rkey
	_          [4]byte
}

// Atomic is wr.atomic of struct ibv_send_wr.
type Atomic struct {
	RemoteAddr uint64 // remote_addr
	CompareAdd uint64 // compare_add
	Swap       uint64 // swap
	RKey       uint32 // rkey
	_          [4]byte
}

// UD is wr.ud of struct ibv_send_wr: of datagrams.
type UD struct {
	AH         uintptr // ah
	RemoteQPN  uint32  // remote_qpn
	RemoteQKey uint32  // remote_qkey
}

// BindMW is bind_mw of struct ibv_send_wr: of the binding of a memory window.
type BindMW struct {
	MW       uintptr // mw
	RKey     uint32  // rkey: the new key
	_        [4]byte
	BindInfo MWBindInfo // bind_info
}

// MWBindInfo is struct ibv_mw_bind_info.
type MWBindInfo struct {
	MR            uintptr // mr
	Addr          uint64  // addr
	Length        uint64  // length
	MWAccessFlags uint32  // mw_access_flags
	_             [4]byte
}

// MWBind is struct ibv_mw_bind, of windows of type 1.
type MWBind struct {
	WRID      uint64 // wr_id
	SendFlags uint32 // send_flags
	_         [4]byte
	BindInfo  MWBindInfo // bind_info
}

// SGE is struct ibv_sge.
type SGE struct {
	Addr   uint64 // addr
	Length uint32 // length
	LKey   uint32 // lkey
}

// RecvWR is struct ibv_recv_wr.
type RecvWR struct {
	WRID   uint64  // wr_id
	Next   uintptr // next
	SGList uintptr // sg_list
	NumSGE int32   // num_sge
	_      [4]byte
}

// WC is struct ibv_wc. ImmData is in network order, or the key that the peer invalidated.
type WC struct {
	WRID         uint64 // wr_id
	Status       uint32 // status
	Opcode       uint32 // opcode
	VendorErr    uint32 // vendor_err
	ByteLen      uint32 // byte_len
	ImmData      uint32 // imm_data
	QPNum        uint32 // qp_num
	SrcQP        uint32 // src_qp
	WCFlags      uint32 // wc_flags
	PKeyIndex    uint16 // pkey_index
	SLID         uint16 // slid
	SL           uint8  // sl
	DLIDPathBits uint8  // dlid_path_bits
	_            [2]byte
}
