package ib

// SGE is one entry of a scatter/gather list, laid out as struct ib_uverbs_sge.
type SGE struct {
	Addr uint64
	Len  uint32
	LKey uint32
}

// WC is a completion, laid out as struct ib_uverbs_wc (and struct ibv_wc). If it failed, only ID, Status,
// VendorErr and QPN are valid.
type WC struct {
	ID           uint64
	Status       uint32
	Opcode       uint32
	VendorErr    uint32
	Len          uint32
	Imm          uint32 // immediate data as on the wire (big-endian), or the invalidated key in host order
	QPN          uint32
	SrcQP        uint32
	Flags        uint32
	PKeyIndex    uint16
	SLID         uint16
	SL           uint8
	DLIDPathBits uint8
	PortNum      uint8 // not set by libibverbs
	_            uint8
}

// RecvWR is a receive whose list has one entry.
type RecvWR struct {
	ID  uint64
	SGE SGE
}

// SendWR is a work request for a send queue. Only the fields that the opcode uses are read.
type SendWR struct {
	ID     uint64
	Opcode uint32 // enum ib_uverbs_wr_opcode
	Flags  uint32 // enum ibv_send_flags
	Imm    uint32 // immediate data as on the wire (big-endian), or the key to invalidate in host order

	// SGE is the memory to read from or write into. With the inline flag, Inline is sent instead, which is in the heap.
	SGE    []SGE
	Inline []byte

	Remote        uint64 // address at the peer: write, read, atomic operations
	RKey          uint32
	Compare, Swap uint64 // compare and swap; Compare is the addend of fetch and add

	AH        AH     // datagrams
	AHNum     uint32 // the number of AH if AH is a HasAHNumber
	QPN, QKey uint32
	PKeyIndex uint16

	// Last announces that Ring follows. Post may then submit the request itself, so that one call of the library does both.
	Last bool

	Bind Bind // binding of a memory window
}

// Bind is a binding of a memory window to a part of a region.
type Bind struct {
	MW     MW
	RKey   uint32 // the window's new key, for windows of type 2
	MR     MR
	Addr   uint64
	Length uint64
	Access uint32
}

// Cap is the sizes of a queue pair.
type Cap struct {
	SendWR, RecvWR, SendSGE, RecvSGE, Inline uint32
}

// QPInit describes a queue pair to create.
type QPInit struct {
	Type           uint8 // enum ib_uverbs_qp_type
	SendCQ, RecvCQ CQ
	SRQ            SRQ // or nil
	Cap            Cap
	SignalAll      bool
}

// AHAttr is an address vector.
type AHAttr struct {
	DGID         [16]byte
	FlowLabel    uint32
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	Global       bool // the fields above are used
	DLID         uint16
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	Port         uint8
}

// QPAttr are the attributes of a queue pair.
type QPAttr struct {
	State, CurState     uint8 // enum ib_qp_state
	PathMTU             uint8 // enum ib_mtu
	PathMigState        uint8
	QKey                uint32
	RQPSN, SQPSN        uint32
	DestQPN             uint32
	Access              uint32
	Cap                 Cap
	AH, AltAH           AHAttr
	PKeyIndex, AltPKey  uint16
	EnSQDAsyncNotify    bool
	SQDraining          bool
	MaxRdAtomic         uint8
	MaxDestRdAtomic     uint8
	MinRNRTimer         uint8
	Port, AltPort       uint8
	Timeout, AltTimeout uint8
	RetryCnt, RNRRetry  uint8
	SignalAll           bool // Query only
}

// DeviceAttr are a device's capabilities; names and units are those of struct ibv_device_attr.
type DeviceAttr struct {
	FirmwareVersion                                         string
	NodeGUID, SysImageGUID                                  uint64 // big-endian, read as a number
	MaxMRSize, PageSizeCap                                  uint64
	VendorID, VendorPartID, HWVersion                       uint32
	MaxQP, MaxQPWR                                          uint32
	DeviceCapFlags                                          uint32
	MaxSGE, MaxSGERd, MaxCQ, MaxCQE, MaxMR, MaxPD           uint32
	MaxQPRdAtom, MaxResRdAtom, MaxQPInitRdAtom              uint32
	AtomicCap                                               uint32
	MaxMW, MaxMcastGrp, MaxMcastQPAttach, MaxTotMcastAttach uint32
	MaxAH, MaxSRQ, MaxSRQWR, MaxSRQSGE                      uint32
	MaxInline                                               uint32 // 0 if the device does not report it
	MaxPKeys                                                uint16
	LocalCAAckDelay                                         uint8
	Ports                                                   uint8
}

// PortAttr are a port's attributes; names and units are those of struct ibv_port_attr.
type PortAttr struct {
	CapFlags, MaxMsgSize, BadPKey, QKeyViolations uint32
	GIDTableLen                                   uint32
	PKeyTableLen, LID, SMLID                      uint16
	State, MaxMTU, ActiveMTU, LMC, MaxVL, SMSL    uint8
	SubnetTimeout, InitTypeReply                  uint8
	ActiveWidth, ActiveSpeed, PhysState           uint8
	LinkLayer, Flags                              uint8
}

// GID is one entry of a port's GID table.
type GID struct {
	GID    [16]byte
	Index  uint32
	Port   uint32
	Type   uint32 // enum ib_uverbs_gid_type: the values of the kernel
	Netdev int    // interface index, or 0
}
