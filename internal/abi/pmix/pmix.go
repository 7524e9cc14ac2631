package pmix

// Proc is struct pmix_proc. It identifies a process.
type Proc struct {
	Nspace [256]byte // nspace: name of the job, ends with a zero
	Rank   uint32    // rank
}

// Value is struct pmix_value. Type says which members of its union are valid. Integers of all types are at the address of Bytes,
// which has their low bytes: the processors are little-endian.
type Value struct {
	Type  uint16 // type: such as TypeByteObject
	_     [6]byte
	Bytes uintptr // data.bo.bytes: address of the bytes of a byte object, or of a string
	Size  uint64  // data.bo.size
	_     [8]byte
}

// Info is struct pmix_info. It is a parameter of a call.
type Info struct {
	Key   [512]byte // key: ends with a zero
	Flags uint32    // flags
	_     [4]byte
	Value Value // value
}

// RankWildcard names the whole job instead of a process of it, RankUndefined no process.
const (
	RankWildcard  = 1<<32 - 2 // PMIX_RANK_WILDCARD
	RankUndefined = 1<<32 - 1 // PMIX_RANK_UNDEF
)

// ScopeGlobal makes a value visible to all processes of the job.
const ScopeGlobal = 3 // PMIX_GLOBAL

// The types of values. Launchers disagree about the type of an integer.
const (
	TypeBool       = 1  // PMIX_BOOL
	TypeString     = 3  // PMIX_STRING
	TypeSize       = 4  // PMIX_SIZE
	TypeInt        = 6  // PMIX_INT
	TypeInt32      = 9  // PMIX_INT32
	TypeUint       = 11 // PMIX_UINT
	TypeUint16     = 13 // PMIX_UINT16
	TypeUint32     = 14 // PMIX_UINT32
	TypeUint64     = 15 // PMIX_UINT64
	TypeByteObject = 27 // PMIX_BYTE_OBJECT
	TypeProcRank   = 40 // PMIX_PROC_RANK
)

// Results of calls.
const (
	Success        = 0   // PMIX_SUCCESS
	NotFound       = -46 // PMIX_ERR_NOT_FOUND
	PartialSuccess = -52 // PMIX_ERR_PARTIAL_SUCCESS: of a fence, if a process of the job has ended
)

// What the launcher provides, and parameters of calls.
const (
	KeyJobSize      = "pmix.job.size"  // PMIX_JOB_SIZE: uint32, of the job
	KeyUniverseSize = "pmix.univ.size" // PMIX_UNIV_SIZE: uint32, of the job
	KeyLocalPeers   = "pmix.lpeers"    // PMIX_LOCAL_PEERS: string, of the job
	KeyAppNum       = "pmix.appnum"    // PMIX_APPNUM: uint32, of a process
	KeyNodeID       = "pmix.nodeid"    // PMIX_NODEID: uint32, of a process
	KeyHostName     = "pmix.hname"     // PMIX_HOSTNAME: string, of a process
	KeyCollect      = "pmix.collect"   // PMIX_COLLECT_DATA: bool, of a fence
	KeyImmediate    = "pmix.immediate" // PMIX_IMMEDIATE: bool, of a get
)
