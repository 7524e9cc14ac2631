package uverbs

// AllocPD is struct ib_uverbs_alloc_pd.
type AllocPD struct {
	Response uint64 // response
}

// AllocPDResp is struct ib_uverbs_alloc_pd_resp.
type AllocPDResp struct {
	PDHandle uint32 // pd_handle
}

// DeallocPD is struct ib_uverbs_dealloc_pd.
type DeallocPD struct {
	PDHandle uint32 // pd_handle
}

// RegMR is struct ib_uverbs_reg_mr.
type RegMR struct {
	Response    uint64 // response
	Start       uint64 // start
	Length      uint64 // length
	HCAVA       uint64 // hca_va
	PDHandle    uint32 // pd_handle
	AccessFlags uint32 // access_flags
}

// RegMRResp is struct ib_uverbs_reg_mr_resp.
type RegMRResp struct {
	MRHandle uint32 // mr_handle
	LKey     uint32 // lkey
	RKey     uint32 // rkey
}

// ReregMR is struct ib_uverbs_rereg_mr.
type ReregMR struct {
	Response    uint64 // response
	MRHandle    uint32 // mr_handle
	Flags       uint32 // flags
	Start       uint64 // start
	Length      uint64 // length
	HCAVA       uint64 // hca_va
	PDHandle    uint32 // pd_handle
	AccessFlags uint32 // access_flags
}

// ReregMRResp is struct ib_uverbs_rereg_mr_resp.
type ReregMRResp struct {
	LKey uint32 // lkey
	RKey uint32 // rkey
}

// DeregMR is struct ib_uverbs_dereg_mr.
type DeregMR struct {
	MRHandle uint32 // mr_handle
}

// AllocMW is struct ib_uverbs_alloc_mw.
type AllocMW struct {
	Response uint64 // response
	PDHandle uint32 // pd_handle
	MWType   uint8  // mw_type
	_        [3]byte
}

// AllocMWResp is struct ib_uverbs_alloc_mw_resp.
type AllocMWResp struct {
	MWHandle uint32 // mw_handle
	RKey     uint32 // rkey
}

// DeallocMW is struct ib_uverbs_dealloc_mw.
type DeallocMW struct {
	MWHandle uint32 // mw_handle
}
