package uverbs

// DeviceCap is enum ib_uverbs_device_cap_flags.
type DeviceCap uint64

// What a device can do.
const (
	DeviceResizeMaxWR      DeviceCap = 1 << 0  // IB_UVERBS_DEVICE_RESIZE_MAX_WR
	DeviceBadPKeyCntr      DeviceCap = 1 << 1  // IB_UVERBS_DEVICE_BAD_PKEY_CNTR
	DeviceBadQKeyCntr      DeviceCap = 1 << 2  // IB_UVERBS_DEVICE_BAD_QKEY_CNTR
	DeviceRawMulti         DeviceCap = 1 << 3  // IB_UVERBS_DEVICE_RAW_MULTI
	DeviceAutoPathMig      DeviceCap = 1 << 4  // IB_UVERBS_DEVICE_AUTO_PATH_MIG
	DeviceChangePhyPort    DeviceCap = 1 << 5  // IB_UVERBS_DEVICE_CHANGE_PHY_PORT
	DeviceUDAVPortEnforce  DeviceCap = 1 << 6  // IB_UVERBS_DEVICE_UD_AV_PORT_ENFORCE
	DeviceCurrQPStateMod   DeviceCap = 1 << 7  // IB_UVERBS_DEVICE_CURR_QP_STATE_MOD
	DeviceShutdownPort     DeviceCap = 1 << 8  // IB_UVERBS_DEVICE_SHUTDOWN_PORT
	DevicePortActiveEvent  DeviceCap = 1 << 10 // IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT
	DeviceSysImageGUID     DeviceCap = 1 << 11 // IB_UVERBS_DEVICE_SYS_IMAGE_GUID
	DeviceRCRNRNAKGen      DeviceCap = 1 << 12 // IB_UVERBS_DEVICE_RC_RNR_NAK_GEN
	DeviceSRQResize        DeviceCap = 1 << 13 // IB_UVERBS_DEVICE_SRQ_RESIZE
	DeviceNNotifyCQ        DeviceCap = 1 << 14 // IB_UVERBS_DEVICE_N_NOTIFY_CQ
	DeviceMemWindow        DeviceCap = 1 << 17 // IB_UVERBS_DEVICE_MEM_WINDOW
	DeviceXRC              DeviceCap = 1 << 20 // IB_UVERBS_DEVICE_XRC
	DeviceMemMgtExtensions DeviceCap = 1 << 21 // IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS
	DeviceMemWindowType2A  DeviceCap = 1 << 23 // IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2A
	DeviceMemWindowType2B  DeviceCap = 1 << 24 // IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B
)

// PortCap is enum ib_uverbs_query_port_cap_flags.
type PortCap uint32

// What a port can do, as far as it matters to programs.
const (
	PortCapSM          PortCap = 1 << 1  // IB_UVERBS_PCF_SM
	PortCapCM          PortCap = 1 << 16 // IB_UVERBS_PCF_CM_SUP
	PortCapIPBasedGIDs PortCap = 1 << 26 // IB_UVERBS_PCF_IP_BASED_GIDS
)

// DriverID is enum rdma_driver_id: which driver serves a device.
type DriverID uint32

// Drivers.
const (
	DriverUnknown DriverID = 0  // RDMA_DRIVER_UNKNOWN
	DriverMLX5    DriverID = 1  // RDMA_DRIVER_MLX5
	DriverMLX4    DriverID = 2  // RDMA_DRIVER_MLX4
	DriverBNXTRE  DriverID = 6  // RDMA_DRIVER_BNXT_RE
	DriverIRDMA   DriverID = 9  // RDMA_DRIVER_IRDMA
	DriverQEDR    DriverID = 11 // RDMA_DRIVER_QEDR
	DriverHNS     DriverID = 12 // RDMA_DRIVER_HNS
	DriverRXE     DriverID = 14 // RDMA_DRIVER_RXE
	DriverHFI1    DriverID = 15 // RDMA_DRIVER_HFI1
	DriverEFA     DriverID = 17 // RDMA_DRIVER_EFA
	DriverSIW     DriverID = 18 // RDMA_DRIVER_SIW
	DriverERDMA   DriverID = 19 // RDMA_DRIVER_ERDMA
)
