package uverbs

// CreateSRQ is struct ib_uverbs_create_srq.
type CreateSRQ struct {
	Response   uint64 // response
	UserHandle uint64 // user_handle
	PDHandle   uint32 // pd_handle
	MaxWR      uint32 // max_wr
	MaxSGE     uint32 // max_sge
	SRQLimit   uint32 // srq_limit
}

// CreateSRQResp is struct ib_uverbs_create_srq_resp.
type CreateSRQResp struct {
	SRQHandle uint32 // srq_handle
	MaxWR     uint32 // max_wr
	MaxSGE    uint32 // max_sge
	SRQN      uint32 // srqn
}

// ModifySRQ is struct ib_uverbs_modify_srq.
type ModifySRQ struct {
	SRQHandle uint32 // srq_handle
	AttrMask  uint32 // attr_mask
	MaxWR     uint32 // max_wr
	SRQLimit  uint32 // srq_limit
}

// QuerySRQ is struct ib_uverbs_query_srq.
type QuerySRQ struct {
	Response  uint64 // response
	SRQHandle uint32 // srq_handle
	_         [4]byte
}

// QuerySRQResp is struct ib_uverbs_query_srq_resp.
type QuerySRQResp struct {
	MaxWR    uint32 // max_wr
	MaxSGE   uint32 // max_sge
	SRQLimit uint32 // srq_limit
	_        [4]byte
}

// DestroySRQ is struct ib_uverbs_destroy_srq.
type DestroySRQ struct {
	Response  uint64 // response
	SRQHandle uint32 // srq_handle
	_         [4]byte
}

// DestroySRQResp is struct ib_uverbs_destroy_srq_resp.
type DestroySRQResp struct {
	EventsReported uint32 // events_reported
}
