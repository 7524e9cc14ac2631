package uverbs

// The numbers in this file are the same in the kernel and in libibverbs, whose header names them all.

// WCStatus is enum ibv_wc_status: how a work request ended.
type WCStatus uint32

// Completion statuses.
const (
	WCSuccess          WCStatus = 0  // IBV_WC_SUCCESS
	WCLocLenErr        WCStatus = 1  // IBV_WC_LOC_LEN_ERR
	WCLocQPOpErr       WCStatus = 2  // IBV_WC_LOC_QP_OP_ERR
	WCLocEECOpErr      WCStatus = 3  // IBV_WC_LOC_EEC_OP_ERR
	WCLocProtErr       WCStatus = 4  // IBV_WC_LOC_PROT_ERR
	WCWRFlushErr       WCStatus = 5  // IBV_WC_WR_FLUSH_ERR
	WCMWBindErr        WCStatus = 6  // IBV_WC_MW_BIND_ERR
	WCBadRespErr       WCStatus = 7  // IBV_WC_BAD_RESP_ERR
	WCLocAccessErr     WCStatus = 8  // IBV_WC_LOC_ACCESS_ERR
	WCRemInvReqErr     WCStatus = 9  // IBV_WC_REM_INV_REQ_ERR
	WCRemAccessErr     WCStatus = 10 // IBV_WC_REM_ACCESS_ERR
	WCRemOpErr         WCStatus = 11 // IBV_WC_REM_OP_ERR
	WCRetryExcErr      WCStatus = 12 // IBV_WC_RETRY_EXC_ERR
	WCRNRRetryExcErr   WCStatus = 13 // IBV_WC_RNR_RETRY_EXC_ERR
	WCLocRDDViolErr    WCStatus = 14 // IBV_WC_LOC_RDD_VIOL_ERR
	WCRemInvRDReqErr   WCStatus = 15 // IBV_WC_REM_INV_RD_REQ_ERR
	WCRemAbortErr      WCStatus = 16 // IBV_WC_REM_ABORT_ERR
	WCInvEECNErr       WCStatus = 17 // IBV_WC_INV_EECN_ERR
	WCInvEECStateErr   WCStatus = 18 // IBV_WC_INV_EEC_STATE_ERR
	WCFatalErr         WCStatus = 19 // IBV_WC_FATAL_ERR
	WCRespTimeoutErr   WCStatus = 20 // IBV_WC_RESP_TIMEOUT_ERR
	WCGeneralErr       WCStatus = 21 // IBV_WC_GENERAL_ERR
	WCTMErr            WCStatus = 22 // IBV_WC_TM_ERR
	WCTMRndvIncomplete WCStatus = 23 // IBV_WC_TM_RNDV_INCOMPLETE
)

// WCOpcode is enum ibv_wc_opcode: what a completion is of. Those of receives have the bit WCRecv.
type WCOpcode uint32

// Opcodes of completions.
const (
	WCSend            WCOpcode = 0    // IBV_WC_SEND
	WCRDMAWrite       WCOpcode = 1    // IBV_WC_RDMA_WRITE
	WCRDMARead        WCOpcode = 2    // IBV_WC_RDMA_READ
	WCCompSwap        WCOpcode = 3    // IBV_WC_COMP_SWAP
	WCFetchAdd        WCOpcode = 4    // IBV_WC_FETCH_ADD
	WCBindMW          WCOpcode = 5    // IBV_WC_BIND_MW
	WCLocalInv        WCOpcode = 6    // IBV_WC_LOCAL_INV
	WCRecv            WCOpcode = 0x80 // IBV_WC_RECV
	WCRecvRDMAWithImm WCOpcode = 0x81 // IBV_WC_RECV_RDMA_WITH_IMM
)

// WCFlags is enum ibv_wc_flags.
type WCFlags uint32

// Flags of completions.
const (
	WCGRH     WCFlags = 1 << 0 // IBV_WC_GRH
	WCWithImm WCFlags = 1 << 1 // IBV_WC_WITH_IMM
	WCWithInv WCFlags = 1 << 3 // IBV_WC_WITH_INV
)

// WROpcode is enum ib_uverbs_wr_opcode.
type WROpcode uint32

// Opcodes of send work requests.
const (
	WRRDMAWrite         WROpcode = 0 // IB_UVERBS_WR_RDMA_WRITE
	WRRDMAWriteWithImm  WROpcode = 1 // IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
	WRSend              WROpcode = 2 // IB_UVERBS_WR_SEND
	WRSendWithImm       WROpcode = 3 // IB_UVERBS_WR_SEND_WITH_IMM
	WRRDMARead          WROpcode = 4 // IB_UVERBS_WR_RDMA_READ
	WRAtomicCmpAndSwp   WROpcode = 5 // IB_UVERBS_WR_ATOMIC_CMP_AND_SWP
	WRAtomicFetchAndAdd WROpcode = 6 // IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
	WRLocalInv          WROpcode = 7 // IB_UVERBS_WR_LOCAL_INV
	WRBindMW            WROpcode = 8 // IB_UVERBS_WR_BIND_MW
	WRSendWithInv       WROpcode = 9 // IB_UVERBS_WR_SEND_WITH_INV
)

// SendFlags is enum ibv_send_flags.
type SendFlags uint32

// Flags of send work requests.
const (
	SendFence     SendFlags = 1 << 0 // IBV_SEND_FENCE
	SendSignaled  SendFlags = 1 << 1 // IBV_SEND_SIGNALED
	SendSolicited SendFlags = 1 << 2 // IBV_SEND_SOLICITED
	SendInline    SendFlags = 1 << 3 // IBV_SEND_INLINE
)

// Access is enum ib_uverbs_access_flags: what may be done to memory, or through a queue pair. A device that does not know a
// flag of AccessOptionalRange ignores it.
type Access uint32

// Access flags. AccessRemoteWrite and AccessRemoteAtomic need AccessLocalWrite.
const (
	AccessLocalWrite      Access = 1 << 0     // IB_UVERBS_ACCESS_LOCAL_WRITE
	AccessRemoteWrite     Access = 1 << 1     // IB_UVERBS_ACCESS_REMOTE_WRITE
	AccessRemoteRead      Access = 1 << 2     // IB_UVERBS_ACCESS_REMOTE_READ
	AccessRemoteAtomic    Access = 1 << 3     // IB_UVERBS_ACCESS_REMOTE_ATOMIC
	AccessMWBind          Access = 1 << 4     // IB_UVERBS_ACCESS_MW_BIND
	AccessZeroBased       Access = 1 << 5     // IB_UVERBS_ACCESS_ZERO_BASED
	AccessOnDemand        Access = 1 << 6     // IB_UVERBS_ACCESS_ON_DEMAND
	AccessHugeTLB         Access = 1 << 7     // IB_UVERBS_ACCESS_HUGETLB
	AccessRelaxedOrdering Access = 1 << 20    // IB_UVERBS_ACCESS_RELAXED_ORDERING
	AccessOptionalRange   Access = 0x3ff00000 // IB_UVERBS_ACCESS_OPTIONAL_RANGE
)

// Rereg is enum ibv_rereg_mr_flags: what REREG_MR changes.
type Rereg uint32

// Flags of REREG_MR.
const (
	ReregTranslation Rereg = 1 << 0 // IBV_REREG_MR_CHANGE_TRANSLATION
	ReregPD          Rereg = 1 << 1 // IBV_REREG_MR_CHANGE_PD
	ReregAccess      Rereg = 1 << 2 // IBV_REREG_MR_CHANGE_ACCESS
)

// MWType is enum ibv_mw_type.
type MWType uint8

// Kinds of memory windows: bound by any queue pair of the domain, or to one queue pair.
const (
	MWType1 MWType = 1 // IBV_MW_TYPE_1
	MWType2 MWType = 2 // IBV_MW_TYPE_2
)

// QPType is enum ib_uverbs_qp_type.
type QPType uint8

// Types of queue pairs.
const (
	QPTRC QPType = 2 // IB_UVERBS_QPT_RC
	QPTUC QPType = 3 // IB_UVERBS_QPT_UC
	QPTUD QPType = 4 // IB_UVERBS_QPT_UD
)

// QPState is enum ibv_qp_state.
type QPState uint8

// States of a queue pair.
const (
	QPSReset QPState = 0 // IBV_QPS_RESET
	QPSInit  QPState = 1 // IBV_QPS_INIT
	QPSRTR   QPState = 2 // IBV_QPS_RTR
	QPSRTS   QPState = 3 // IBV_QPS_RTS
	QPSSQD   QPState = 4 // IBV_QPS_SQD
	QPSSQE   QPState = 5 // IBV_QPS_SQE
	QPSErr   QPState = 6 // IBV_QPS_ERR
)

// MigState is enum ibv_mig_state.
type MigState uint8

// States of path migration.
const (
	MigMigrated MigState = 0 // IBV_MIG_MIGRATED
	MigRearm    MigState = 1 // IBV_MIG_REARM
	MigArmed    MigState = 2 // IBV_MIG_ARMED
)

// QPAttrMask is enum ibv_qp_attr_mask: which attributes MODIFY_QP sets and QUERY_QP wants.
type QPAttrMask uint32

// Attributes of a queue pair.
const (
	QPAttrState            QPAttrMask = 1 << 0  // IBV_QP_STATE
	QPAttrCurState         QPAttrMask = 1 << 1  // IBV_QP_CUR_STATE
	QPAttrEnSQDAsyncNotify QPAttrMask = 1 << 2  // IBV_QP_EN_SQD_ASYNC_NOTIFY
	QPAttrAccessFlags      QPAttrMask = 1 << 3  // IBV_QP_ACCESS_FLAGS
	QPAttrPKeyIndex        QPAttrMask = 1 << 4  // IBV_QP_PKEY_INDEX
	QPAttrPort             QPAttrMask = 1 << 5  // IBV_QP_PORT
	QPAttrQKey             QPAttrMask = 1 << 6  // IBV_QP_QKEY
	QPAttrAV               QPAttrMask = 1 << 7  // IBV_QP_AV
	QPAttrPathMTU          QPAttrMask = 1 << 8  // IBV_QP_PATH_MTU
	QPAttrTimeout          QPAttrMask = 1 << 9  // IBV_QP_TIMEOUT
	QPAttrRetryCnt         QPAttrMask = 1 << 10 // IBV_QP_RETRY_CNT
	QPAttrRNRRetry         QPAttrMask = 1 << 11 // IBV_QP_RNR_RETRY
	QPAttrRQPSN            QPAttrMask = 1 << 12 // IBV_QP_RQ_PSN
	QPAttrMaxQPRdAtomic    QPAttrMask = 1 << 13 // IBV_QP_MAX_QP_RD_ATOMIC
	QPAttrAltPath          QPAttrMask = 1 << 14 // IBV_QP_ALT_PATH
	QPAttrMinRNRTimer      QPAttrMask = 1 << 15 // IBV_QP_MIN_RNR_TIMER
	QPAttrSQPSN            QPAttrMask = 1 << 16 // IBV_QP_SQ_PSN
	QPAttrMaxDestRdAtomic  QPAttrMask = 1 << 17 // IBV_QP_MAX_DEST_RD_ATOMIC
	QPAttrPathMigState     QPAttrMask = 1 << 18 // IBV_QP_PATH_MIG_STATE
	QPAttrCap              QPAttrMask = 1 << 19 // IBV_QP_CAP
	QPAttrDestQPN          QPAttrMask = 1 << 20 // IBV_QP_DEST_QPN
)

// SRQAttrMask is enum ibv_srq_attr_mask: which attributes MODIFY_SRQ sets.
type SRQAttrMask uint32

// Attributes of a shared receive queue.
const (
	SRQAttrMaxWR SRQAttrMask = 1 << 0 // IBV_SRQ_MAX_WR
	SRQAttrLimit SRQAttrMask = 1 << 1 // IBV_SRQ_LIMIT
)

// MTU is enum ibv_mtu.
type MTU uint8

// Path MTUs, in bytes of payload.
const (
	MTU256  MTU = 1 // IBV_MTU_256
	MTU512  MTU = 2 // IBV_MTU_512
	MTU1024 MTU = 3 // IBV_MTU_1024
	MTU2048 MTU = 4 // IBV_MTU_2048
	MTU4096 MTU = 5 // IBV_MTU_4096
)

// PortState is enum ibv_port_state.
type PortState uint8

// States of a port.
const (
	PortNop         PortState = 0 // IBV_PORT_NOP
	PortDown        PortState = 1 // IBV_PORT_DOWN
	PortInit        PortState = 2 // IBV_PORT_INIT
	PortArmed       PortState = 3 // IBV_PORT_ARMED
	PortActive      PortState = 4 // IBV_PORT_ACTIVE
	PortActiveDefer PortState = 5 // IBV_PORT_ACTIVE_DEFER
)

// LinkLayer is what IBV_LINK_LAYER_ constants say.
type LinkLayer uint8

// Link layers of a port.
const (
	LinkLayerUnspecified LinkLayer = 0 // IBV_LINK_LAYER_UNSPECIFIED
	LinkLayerInfiniBand  LinkLayer = 1 // IBV_LINK_LAYER_INFINIBAND
	LinkLayerEthernet    LinkLayer = 2 // IBV_LINK_LAYER_ETHERNET
)

// PortFlags is enum ib_uverbs_query_port_flags.
type PortFlags uint8

// PortFlagGRHRequired says that address vectors of the port must have a global route header.
const PortFlagGRHRequired PortFlags = 1 << 0 // IB_UVERBS_QPF_GRH_REQUIRED

// GIDType is enum ib_uverbs_gid_type.
type GIDType uint32

// Types of GIDs.
const (
	GIDTypeIB     GIDType = 0 // IB_UVERBS_GID_TYPE_IB
	GIDTypeRoCEv1 GIDType = 1 // IB_UVERBS_GID_TYPE_ROCE_V1
	GIDTypeRoCEv2 GIDType = 2 // IB_UVERBS_GID_TYPE_ROCE_V2
)

// AtomicCap is enum ibv_atomic_cap: with what the device's atomic operations are atomic.
type AtomicCap uint32

// Kinds of atomicity: none, with other operations of the same device, with the processors as well.
const (
	AtomicNone AtomicCap = 0 // IBV_ATOMIC_NONE
	AtomicHCA  AtomicCap = 1 // IBV_ATOMIC_HCA
	AtomicGlob AtomicCap = 2 // IBV_ATOMIC_GLOB
)

// NodeType is enum ibv_node_type, what sysfs writes into node_type.
type NodeType int32

// Types of nodes. EFA is unspecified.
const (
	NodeCA          NodeType = 1 // IBV_NODE_CA
	NodeSwitch      NodeType = 2 // IBV_NODE_SWITCH
	NodeRouter      NodeType = 3 // IBV_NODE_ROUTER
	NodeRNIC        NodeType = 4 // IBV_NODE_RNIC
	NodeUSNIC       NodeType = 5 // IBV_NODE_USNIC
	NodeUSNICUDP    NodeType = 6 // IBV_NODE_USNIC_UDP
	NodeUnspecified NodeType = 7 // IBV_NODE_UNSPECIFIED
)
