package ibv

// DeviceAttr is struct ibv_device_attr. FWVer is a string that ends with a zero; the GUIDs are in network order.
type DeviceAttr struct {
	FWVer                 [64]byte // fw_ver
	NodeGUID              uint64   // node_guid
	SysImageGUID          uint64   // sys_image_guid
	MaxMRSize             uint64   // max_mr_size
	PageSizeCap           uint64   // page_size_cap
	VendorID              uint32   // vendor_id
	VendorPartID          uint32   // vendor_part_id
	HWVer                 uint32   // hw_ver
	MaxQP                 int32    // max_qp
	MaxQPWR               int32    // max_qp_wr
	DeviceCapFlags        uint32   // device_cap_flags
	MaxSGE                int32    // max_sge
	MaxSGERd              int32    // max_sge_rd
	MaxCQ                 int32    // max_cq
	MaxCQE                int32    // max_cqe
	MaxMR                 int32    // max_mr
	MaxPD                 int32    // max_pd
	MaxQPRdAtom           int32    // max_qp_rd_atom
	MaxEERdAtom           int32    // max_ee_rd_atom
	MaxResRdAtom          int32    // max_res_rd_atom
	MaxQPInitRdAtom       int32    // max_qp_init_rd_atom
	MaxEEInitRdAtom       int32    // max_ee_init_rd_atom
	AtomicCap             uint32   // atomic_cap
	MaxEE                 int32    // max_ee
	MaxRDD                int32    // max_rdd
	MaxMW                 int32    // max_mw
	MaxRawIPv6QP          int32    // max_raw_ipv6_qp
	MaxRawEthyQP          int32    // max_raw_ethy_qp
	MaxMcastGrp           int32    // max_mcast_grp
	MaxMcastQPAttach      int32    // max_mcast_qp_attach
	MaxTotalMcastQPAttach int32    // max_total_mcast_qp_attach
	MaxAH                 int32    // max_ah
	MaxFMR                int32    // max_fmr
	MaxMapPerFMR          int32    // max_map_per_fmr
	MaxSRQ                int32    // max_srq
	MaxSRQWR              int32    // max_srq_wr
	MaxSRQSGE             int32    // max_srq_sge
	MaxPKeys              uint16   // max_pkeys
	LocalCAAckDelay       uint8    // local_ca_ack_delay
	PhysPortCnt           uint8    // phys_port_cnt
	_                     [4]byte
}

// PortAttr is the start of struct ibv_port_attr, which is longer in newer versions of rdma-core. ibv_query_port, the function of
// the library, writes only the fields up to Flags in all versions.
type PortAttr struct {
	State         uint32 // state
	MaxMTU        uint32 // max_mtu
	ActiveMTU     uint32 // active_mtu
	GIDTblLen     int32  // gid_tbl_len
	PortCapFlags  uint32 // port_cap_flags
	MaxMsgSz      uint32 // max_msg_sz
	BadPKeyCntr   uint32 // bad_pkey_cntr
	QKeyViolCntr  uint32 // qkey_viol_cntr
	PKeyTblLen    uint16 // pkey_tbl_len
	LID           uint16 // lid
	SMLID         uint16 // sm_lid
	LMC           uint8  // lmc
	MaxVLNum      uint8  // max_vl_num
	SMSL          uint8  // sm_sl
	SubnetTimeout uint8  // subnet_timeout
	InitTypeReply uint8  // init_type_reply
	ActiveWidth   uint8  // active_width
	ActiveSpeed   uint8  // active_speed
	PhysState     uint8  // phys_state
	LinkLayer     uint8  // link_layer
	Flags         uint8  // flags
	PortCapFlags2 uint16 // port_cap_flags2
	_             [2]byte
}

// QPCap is struct ibv_qp_cap.
type QPCap struct {
	MaxSendWR     uint32 // max_send_wr
	MaxRecvWR     uint32 // max_recv_wr
	MaxSendSGE    uint32 // max_send_sge
	MaxRecvSGE    uint32 // max_recv_sge
	MaxInlineData uint32 // max_inline_data
}

// QPInitAttr is struct ibv_qp_init_attr. The library writes the sizes that the pair really got into Cap.
type QPInitAttr struct {
	QPContext uintptr // qp_context
	SendCQ    uintptr // send_cq
	RecvCQ    uintptr // recv_cq
	SRQ       uintptr // srq
	Cap       QPCap   // cap
	QPType    uint32  // qp_type
	SQSigAll  int32   // sq_sig_all
	_         [4]byte
}

// QPAttr is struct ibv_qp_attr.
type QPAttr struct {
	QPState          uint32 // qp_state
	CurQPState       uint32 // cur_qp_state
	PathMTU          uint32 // path_mtu
	PathMigState     uint32 // path_mig_state
	QKey             uint32 // qkey
	RQPSN            uint32 // rq_psn
	SQPSN            uint32 // sq_psn
	DestQPNum        uint32 // dest_qp_num
	QPAccessFlags    uint32 // qp_access_flags
	Cap              QPCap  // cap
	AHAttr           AHAttr // ah_attr
	AltAHAttr        AHAttr // alt_ah_attr
	PKeyIndex        uint16 // pkey_index
	AltPKeyIndex     uint16 // alt_pkey_index
	EnSQDAsyncNotify uint8  // en_sqd_async_notify
	SQDraining       uint8  // sq_draining
	MaxRdAtomic      uint8  // max_rd_atomic
	MaxDestRdAtomic  uint8  // max_dest_rd_atomic
	MinRNRTimer      uint8  // min_rnr_timer
	PortNum          uint8  // port_num
	Timeout          uint8  // timeout
	RetryCnt         uint8  // retry_cnt
	RNRRetry         uint8  // rnr_retry
	AltPortNum       uint8  // alt_port_num
	AltTimeout       uint8  // alt_timeout
	_                byte
	RateLimit        uint32 // rate_limit
	_                [4]byte
}

// AHAttr is struct ibv_ah_attr.
type AHAttr struct {
	GRH         GlobalRoute // grh
	DLID        uint16      // dlid
	SL          uint8       // sl
	SrcPathBits uint8       // src_path_bits
	StaticRate  uint8       // static_rate
	IsGlobal    uint8       // is_global
	PortNum     uint8       // port_num
	_           byte
}

// GlobalRoute is struct ibv_global_route.
type GlobalRoute struct {
	DGID         [16]byte // dgid
	FlowLabel    uint32   // flow_label
	SGIDIndex    uint8    // sgid_index
	HopLimit     uint8    // hop_limit
	TrafficClass uint8    // traffic_class
	_            byte
}

// SRQAttr is struct ibv_srq_attr.
type SRQAttr struct {
	MaxWR    uint32 // max_wr
	MaxSGE   uint32 // max_sge
	SRQLimit uint32 // srq_limit
}

// SRQInitAttr is struct ibv_srq_init_attr.
type SRQInitAttr struct {
	SRQContext uintptr // srq_context
	Attr       SRQAttr // attr
	_          [4]byte
}

// AsyncEvent is struct ibv_async_event. Element is the address of the object or the number of the port.
type AsyncEvent struct {
	Element   uintptr // element
	EventType uint32  // event_type
	_         [4]byte
}
