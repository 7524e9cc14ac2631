package uverbs

// The ioctl interface says each argument in an attribute of its own. Only what write(2) cannot do is listed.

// IoctlHdr is struct ib_uverbs_ioctl_hdr. The attributes follow; Length counts them and the header in bytes.
type IoctlHdr struct {
	Length   uint16 // length
	ObjectID uint16 // object_id
	MethodID uint16 // method_id
	NumAttrs uint16 // num_attrs
	_        [8]byte
	DriverID uint32 // driver_id: the device's, or the kernel refuses the call
	_        [4]byte
}

// Attr is struct ib_uverbs_attr. Data is the value of an input of at most eight bytes, and the address of anything else.
type Attr struct {
	AttrID uint16 // attr_id
	Len    uint16 // len, in bytes
	Flags  uint16 // flags
	_      [2]byte
	Data   uint64 // data
}

// VerbsIoctl is the request number of ioctl(2).
const VerbsIoctl = 0xc0181b01 // RDMA_VERBS_IOCTL

// AttrMandatory is set in Attr.Flags where the kernel must know the attribute or refuse the call.
const AttrMandatory = 1 << 0 // UVERBS_ATTR_F_MANDATORY

// Object and methods of the GID queries.
const (
	ObjectDevice        = 0 // UVERBS_OBJECT_DEVICE
	MethodQueryGIDTable = 5 // UVERBS_METHOD_QUERY_GID_TABLE
	MethodQueryGIDEntry = 6 // UVERBS_METHOD_QUERY_GID_ENTRY
)

// Attributes of QUERY_GID_TABLE: size of an entry, flags (none), the entries and their number.
const (
	AttrGIDTableEntrySize      = 0 // UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE
	AttrGIDTableFlags          = 1 // UVERBS_ATTR_QUERY_GID_TABLE_FLAGS
	AttrGIDTableRespEntries    = 2 // UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES
	AttrGIDTableRespNumEntries = 3 // UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES
)

// Attributes of QUERY_GID_ENTRY: port, index, flags (none) and the entry.
const (
	AttrGIDEntryPort  = 0 // UVERBS_ATTR_QUERY_GID_ENTRY_PORT
	AttrGIDEntryIndex = 1 // UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX
	AttrGIDEntryFlags = 2 // UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS
	AttrGIDEntryResp  = 3 // UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY
)
