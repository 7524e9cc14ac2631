package uverbs

// CmdHdr is struct ib_uverbs_cmd_hdr, which opens every command written to the device. Words have four bytes and count
// from the header on.
type CmdHdr struct {
	Command  uint32 // command
	InWords  uint16 // in_words
	OutWords uint16 // out_words
}

// GetContext is struct ib_uverbs_get_context: the first command on a descriptor.
type GetContext struct {
	Response uint64 // response
}

// GetContextResp is struct ib_uverbs_get_context_resp.
type GetContextResp struct {
	AsyncFD        uint32 // async_fd
	NumCompVectors uint32 // num_comp_vectors
}

// QueryDevice is struct ib_uverbs_query_device.
type QueryDevice struct {
	Response uint64 // response
}

// QueryDeviceResp is struct ib_uverbs_query_device_resp.
type QueryDeviceResp struct {
	FWVer                 uint64 // fw_ver
	NodeGUID              uint64 // node_guid, in network order
	SysImageGUID          uint64 // sys_image_guid, in network order
	MaxMRSize             uint64 // max_mr_size
	PageSizeCap           uint64 // page_size_cap
	VendorID              uint32 // vendor_id
	VendorPartID          uint32 // vendor_part_id
	HWVer                 uint32 // hw_ver
	MaxQP                 uint32 // max_qp
	MaxQPWR               uint32 // max_qp_wr
	DeviceCapFlags        uint32 // device_cap_flags
	MaxSGE                uint32 // max_sge
	MaxSGERd              uint32 // max_sge_rd
	MaxCQ                 uint32 // max_cq
	MaxCQE                uint32 // max_cqe
	MaxMR                 uint32 // max_mr
	MaxPD                 uint32 // max_pd
	MaxQPRdAtom           uint32 // max_qp_rd_atom
	MaxEERdAtom           uint32 // max_ee_rd_atom
	MaxResRdAtom          uint32 // max_res_rd_atom
	MaxQPInitRdAtom       uint32 // max_qp_init_rd_atom
	MaxEEInitRdAtom       uint32 // max_ee_init_rd_atom
	AtomicCap             uint32 // atomic_cap
	MaxEE                 uint32 // max_ee
	MaxRDD                uint32 // max_rdd
	MaxMW                 uint32 // max_mw
	MaxRawIPv6QP          uint32 // max_raw_ipv6_qp
	MaxRawEthyQP          uint32 // max_raw_ethy_qp
	MaxMcastGrp           uint32 // max_mcast_grp
	MaxMcastQPAttach      uint32 // max_mcast_qp_attach
	MaxTotalMcastQPAttach uint32 // max_total_mcast_qp_attach
	MaxAH                 uint32 // max_ah
	MaxFMR                uint32 // max_fmr
	MaxMapPerFMR          uint32 // max_map_per_fmr
	MaxSRQ                uint32 // max_srq
	MaxSRQWR              uint32 // max_srq_wr
	MaxSRQSGE             uint32 // max_srq_sge
	MaxPkeys              uint16 // max_pkeys
	LocalCAAckDelay       uint8  // local_ca_ack_delay
	PhysPortCnt           uint8  // phys_port_cnt
	_                     [4]byte
}

// ODPCaps is struct ib_uverbs_odp_caps.
type ODPCaps struct {
	GeneralCaps uint64 // general_caps
	RC          uint32 // per_transport_caps.rc_odp_caps
	UC          uint32 // per_transport_caps.uc_odp_caps
	UD          uint32 // per_transport_caps.ud_odp_caps
	_           [4]byte
}

// RSSCaps is struct ib_uverbs_rss_caps.
type RSSCaps struct {
	SupportedQPTS              uint32 // supported_qpts
	MaxRwqIndirectionTables    uint32 // max_rwq_indirection_tables
	MaxRwqIndirectionTableSize uint32 // max_rwq_indirection_table_size
	_                          [4]byte
}

// TMCaps is struct ib_uverbs_tm_caps.
type TMCaps struct {
	MaxRndvHdrSize uint32 // max_rndv_hdr_size
	MaxNumTags     uint32 // max_num_tags
	Flags          uint32 // flags
	MaxOps         uint32 // max_ops
	MaxSGE         uint32 // max_sge
	_              [4]byte
}

// CQModerationCaps is struct ib_uverbs_cq_moderation_caps.
type CQModerationCaps struct {
	MaxCQModerationCount  uint16 // max_cq_moderation_count
	MaxCQModerationPeriod uint16 // max_cq_moderation_period
	_                     [4]byte
}

// ExCmdHdr is struct ib_uverbs_ex_cmd_hdr, which follows CmdHdr in extended commands. Their words have eight bytes and do
// not count the headers.
type ExCmdHdr struct {
	Response         uint64 // response
	ProviderInWords  uint16 // provider_in_words
	ProviderOutWords uint16 // provider_out_words
	CmdHdrReserved   uint32 // cmd_hdr_reserved
}

// ExQueryDevice is struct ib_uverbs_ex_query_device.
type ExQueryDevice struct {
	CompMask uint32 // comp_mask
	_        [4]byte
}

// ExQueryDeviceResp is struct ib_uverbs_ex_query_device_resp.
type ExQueryDeviceResp struct {
	Base             QueryDeviceResp  // base
	CompMask         uint32           // comp_mask
	ResponseLength   uint32           // response_length
	ODPCaps          ODPCaps          // odp_caps
	TimestampMask    uint64           // timestamp_mask
	HCACoreClock     uint64           // hca_core_clock, in kHz
	DeviceCapFlagsEx uint64           // device_cap_flags_ex
	RSSCaps          RSSCaps          // rss_caps
	MaxWQTypeRQ      uint32           // max_wq_type_rq
	RawPacketCaps    uint32           // raw_packet_caps
	TMCaps           TMCaps           // tm_caps
	CQModerationCaps CQModerationCaps // cq_moderation_caps
	MaxDMSize        uint64           // max_dm_size
	XRCODPCaps       uint32           // xrc_odp_caps
	_                [4]byte
}

// QueryPort is struct ib_uverbs_query_port.
type QueryPort struct {
	Response uint64 // response
	PortNum  uint8  // port_num
	_        [7]byte
}

// QueryPortResp is struct ib_uverbs_query_port_resp.
type QueryPortResp struct {
	PortCapFlags  uint32 // port_cap_flags
	MaxMsgSz      uint32 // max_msg_sz
	BadPKeyCntr   uint32 // bad_pkey_cntr
	QKeyViolCntr  uint32 // qkey_viol_cntr
	GIDTblLen     uint32 // gid_tbl_len
	PKeyTblLen    uint16 // pkey_tbl_len
	LID           uint16 // lid
	SMLID         uint16 // sm_lid
	State         uint8  // state
	MaxMTU        uint8  // max_mtu
	ActiveMTU     uint8  // active_mtu
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
	_             byte
}

// GIDEntry is struct ib_uverbs_gid_entry: one entry of a GID table.
type GIDEntry struct {
	GID           [16]byte // gid
	GIDIndex      uint32   // gid_index
	PortNum       uint32   // port_num
	GIDType       uint32   // gid_type
	NetdevIfindex uint32   // netdev_ifindex, 0 without a netdev
}

// AsyncEventDesc is struct ib_uverbs_async_event_desc: what is read from the descriptor for asynchronous events. Element is the
// user handle of the queue or the number of the port.
type AsyncEventDesc struct {
	Element   uint64 // element
	EventType uint32 // event_type
	_         [4]byte
}

// CompEventDesc is struct ib_uverbs_comp_event_desc: what is read from a completion channel.
type CompEventDesc struct {
	CQHandle uint64 // cq_handle: the user handle given to CREATE_CQ
}
