package uverbs

// CreateCompChannel is struct ib_uverbs_create_comp_channel.
type CreateCompChannel struct {
	Response uint64 // response
}

// CreateCompChannelResp is struct ib_uverbs_create_comp_channel_resp.
type CreateCompChannelResp struct {
	FD uint32 // fd
}

// CreateCQ is struct ib_uverbs_create_cq.
type CreateCQ struct {
	Response    uint64 // response
	UserHandle  uint64 // user_handle
	CQE         uint32 // cqe
	CompVector  uint32 // comp_vector
	CompChannel int32  // comp_channel
	_           [4]byte
}

// CreateCQResp is struct ib_uverbs_create_cq_resp.
type CreateCQResp struct {
	CQHandle uint32 // cq_handle
	CQE      uint32 // cqe
}

// ResizeCQ is struct ib_uverbs_resize_cq.
type ResizeCQ struct {
	Response uint64 // response
	CQHandle uint32 // cq_handle
	CQE      uint32 // cqe
}

// ResizeCQResp is struct ib_uverbs_resize_cq_resp.
type ResizeCQResp struct {
	CQE uint32 // cqe
	_   [4]byte
}

// ReqNotifyCQ is struct ib_uverbs_req_notify_cq.
type ReqNotifyCQ struct {
	CQHandle      uint32 // cq_handle
	SolicitedOnly uint32 // solicited_only
}

// DestroyCQ is struct ib_uverbs_destroy_cq.
type DestroyCQ struct {
	Response uint64 // response
	CQHandle uint32 // cq_handle
	_        [4]byte
}

// DestroyCQResp is struct ib_uverbs_destroy_cq_resp.
type DestroyCQResp struct {
	CompEventsReported  uint32 // comp_events_reported
	AsyncEventsReported uint32 // async_events_reported
}
