package rxe

// CreateCQResp is struct rxe_create_cq_resp.
type CreateCQResp struct {
	MI MmapInfo // mi
}

// ResizeCQResp is struct rxe_resize_cq_resp.
type ResizeCQResp struct {
	MI MmapInfo // mi
}

// CreateQPResp is struct rxe_create_qp_resp. RQ is zero for a pair with a shared receive queue.
type CreateQPResp struct {
	RQ MmapInfo // rq_mi
	SQ MmapInfo // sq_mi
}

// CreateSRQResp is struct rxe_create_srq_resp.
type CreateSRQResp struct {
	MI     MmapInfo // mi
	SRQNum uint32   // srq_num
	_      [4]byte
}

// ModifySRQCmd is struct rxe_modify_srq_cmd. The driver writes a MmapInfo to the address when the queue was resized.
type ModifySRQCmd struct {
	MmapInfoAddr uint64 // mmap_info_addr
}

// CreateAHResp is struct rxe_create_ah_resp.
type CreateAHResp struct {
	AHNum uint32 // ah_num
	_     [4]byte
}
