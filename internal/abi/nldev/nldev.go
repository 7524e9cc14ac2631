package nldev

// Client is what asks about devices, among those that share the protocol.
const Client = 5 // RDMA_NL_NLDEV

// Commands.
const (
	CmdGet        = 1  // RDMA_NLDEV_CMD_GET: devices; asked as a dump
	CmdGetChardev = 15 // RDMA_NLDEV_CMD_GET_CHARDEV: the file of a device, by AttrDevIndex and AttrChardevType
)

// Attributes. Strings end with a zero byte.
const (
	AttrDevIndex       = 1  // RDMA_NLDEV_ATTR_DEV_INDEX: 32 bits
	AttrDevName        = 2  // RDMA_NLDEV_ATTR_DEV_NAME: string
	AttrChardevType    = 69 // RDMA_NLDEV_ATTR_CHARDEV_TYPE: string, "uverbs"
	AttrChardevName    = 70 // RDMA_NLDEV_ATTR_CHARDEV_NAME: string, as in /dev/infiniband
	AttrChardevABI     = 71 // RDMA_NLDEV_ATTR_CHARDEV_ABI: 64 bits, the version of the driver's part
	AttrChardev        = 72 // RDMA_NLDEV_ATTR_CHARDEV: 64 bits, the device number
	AttrUverbsDriverID = 73 // RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID: 32 bits
)
