package uverbs

// GlobalRoute is struct ib_uverbs_global_route.
type GlobalRoute struct {
	DGID         [16]byte // dgid
	FlowLabel    uint32   // flow_label
	SGIDIndex    uint8    // sgid_index
	HopLimit     uint8    // hop_limit
	TrafficClass uint8    // traffic_class
	_            byte
}

// AHAttr is struct ib_uverbs_ah_attr.
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

// QPDest is struct ib_uverbs_qp_dest.
type QPDest struct {
	DGID         [16]byte // dgid
	FlowLabel    uint32   // flow_label
	DLID         uint16   // dlid
	_            [2]byte
	SGIDIndex    uint8 // sgid_index
	HopLimit     uint8 // hop_limit
	TrafficClass uint8 // traffic_class
	SL           uint8 // sl
	SrcPathBits  uint8 // src_path_bits
	StaticRate   uint8 // static_rate
	IsGlobal     uint8 // is_global
	PortNum      uint8 // port_num
}

// CreateQP is struct ib_uverbs_create_qp.
type CreateQP struct {
	Response      uint64 // response
	UserHandle    uint64 // user_handle
	PDHandle      uint32 // pd_handle
	SendCQHandle  uint32 // send_cq_handle
	RecvCQHandle  uint32 // recv_cq_handle
	SRQHandle     uint32 // srq_handle
	MaxSendWR     uint32 // max_send_wr
	MaxRecvWR     uint32 // max_recv_wr
	MaxSendSGE    uint32 // max_send_sge
	MaxRecvSGE    uint32 // max_recv_sge
	MaxInlineData uint32 // max_inline_data
	SQSigAll      uint8  // sq_sig_all
	QPType        uint8  // qp_type
	IsSRQ         uint8  // is_srq
	_             byte
}

// CreateQPResp is struct ib_uverbs_create_qp_resp.
type CreateQPResp struct {
	QPHandle      uint32 // qp_handle
	QPN           uint32 // qpn
	MaxSendWR     uint32 // max_send_wr
	MaxRecvWR     uint32 // max_recv_wr
	MaxSendSGE    uint32 // max_send_sge
	MaxRecvSGE    uint32 // max_recv_sge
	MaxInlineData uint32 // max_inline_data
	_             [4]byte
}

// ModifyQP is struct ib_uverbs_modify_qp.
type ModifyQP struct {
	Dest             QPDest // dest
	AltDest          QPDest // alt_dest
	QPHandle         uint32 // qp_handle
	AttrMask         uint32 // attr_mask
	QKey             uint32 // qkey
	RQPSN            uint32 // rq_psn
	SQPSN            uint32 // sq_psn
	DestQPNum        uint32 // dest_qp_num
	QPAccessFlags    uint32 // qp_access_flags
	PKeyIndex        uint16 // pkey_index
	AltPKeyIndex     uint16 // alt_pkey_index
	QPState          uint8  // qp_state
	CurQPState       uint8  // cur_qp_state
	PathMTU          uint8  // path_mtu
	PathMigState     uint8  // path_mig_state
	EnSQDAsyncNotify uint8  // en_sqd_async_notify
	MaxRdAtomic      uint8  // max_rd_atomic
	MaxDestRdAtomic  uint8  // max_dest_rd_atomic
	MinRNRTimer      uint8  // min_rnr_timer
	PortNum          uint8  // port_num
	Timeout          uint8  // timeout
	RetryCnt         uint8  // retry_cnt
	RNRRetry         uint8  // rnr_retry
	AltPortNum       uint8  // alt_port_num
	AltTimeout       uint8  // alt_timeout
	_                [2]byte
}

// QueryQP is struct ib_uverbs_query_qp.
type QueryQP struct {
	Response uint64 // response
	QPHandle uint32 // qp_handle
	AttrMask uint32 // attr_mask
}

// QueryQPResp is struct ib_uverbs_query_qp_resp.
type QueryQPResp struct {
	Dest            QPDest // dest
	AltDest         QPDest // alt_dest
	MaxSendWR       uint32 // max_send_wr
	MaxRecvWR       uint32 // max_recv_wr
	MaxSendSGE      uint32 // max_send_sge
	MaxRecvSGE      uint32 // max_recv_sge
	MaxInlineData   uint32 // max_inline_data
	QKey            uint32 // qkey
	RQPSN           uint32 // rq_psn
	SQPSN           uint32 // sq_psn
	DestQPNum       uint32 // dest_qp_num
	QPAccessFlags   uint32 // qp_access_flags
	PKeyIndex       uint16 // pkey_index
	AltPKeyIndex    uint16 // alt_pkey_index
	QPState         uint8  // qp_state
	CurQPState      uint8  // cur_qp_state
	PathMTU         uint8  // path_mtu
	PathMigState    uint8  // path_mig_state
	SQDraining      uint8  // sq_draining
	MaxRdAtomic     uint8  // max_rd_atomic
	MaxDestRdAtomic uint8  // max_dest_rd_atomic
	MinRNRTimer     uint8  // min_rnr_timer
	PortNum         uint8  // port_num
	Timeout         uint8  // timeout
	RetryCnt        uint8  // retry_cnt
	RNRRetry        uint8  // rnr_retry
	AltPortNum      uint8  // alt_port_num
	AltTimeout      uint8  // alt_timeout
	SQSigAll        uint8  // sq_sig_all
	_               [5]byte
}

// DestroyQP is struct ib_uverbs_destroy_qp.
type DestroyQP struct {
	Response uint64 // response
	QPHandle uint32 // qp_handle
	_        [4]byte
}

// DestroyQPResp is struct ib_uverbs_destroy_qp_resp.
type DestroyQPResp struct {
	EventsReported uint32 // events_reported
}

// PostSend is struct ib_uverbs_post_send, of which rxe takes only the doorbell: no work request follows.
type PostSend struct {
	Response uint64 // response
	QPHandle uint32 // qp_handle
	WRCount  uint32 // wr_count
	SGECount uint32 // sge_count
	WQESize  uint32 // wqe_size
}

// PostSendResp is struct ib_uverbs_post_send_resp.
type PostSendResp struct {
	BadWR uint32 // bad_wr
}

// CreateAH is struct ib_uverbs_create_ah.
type CreateAH struct {
	Response   uint64 // response
	UserHandle uint64 // user_handle
	PDHandle   uint32 // pd_handle
	_          [4]byte
	Attr       AHAttr // attr
}

// CreateAHResp is struct ib_uverbs_create_ah_resp.
type CreateAHResp struct {
	AHHandle uint32 // ah_handle
}

// DestroyAH is struct ib_uverbs_destroy_ah.
type DestroyAH struct {
	AHHandle uint32 // ah_handle
}

// AttachMcast is struct ib_uverbs_attach_mcast.
type AttachMcast struct {
	GID      [16]byte // gid
	QPHandle uint32   // qp_handle
	MLID     uint16   // mlid
	_        [2]byte
}

// DetachMcast is struct ib_uverbs_detach_mcast.
type DetachMcast struct {
	GID      [16]byte // gid
	QPHandle uint32   // qp_handle
	MLID     uint16   // mlid
	_        [2]byte
}
