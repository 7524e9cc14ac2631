package uverbs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Device names a device and its file.
type Device struct {
	Name    string // as in /sys/class/infiniband, such as "rxe0"
	Uverbs  string // as in /dev/infiniband, such as "uverbs0"
	Dev     uint64 // device number of that file
	ABI     int    // version of the driver's private ABI
	Driver  uint32 // enum rdma_driver_id, 0 if unknown
	SysPath string // directory of the device in sysfs
}

// QueryDevice returns the device's limits.
func (c *Context) QueryDevice() (abi.QueryDeviceResp, error) {
	var resp abi.QueryDeviceResp
	err := call(c, abi.CmdQueryDevice, &abi.QueryDevice{}, &resp, Driver{})
	return resp, err
}

// QueryDeviceEx returns the device's limits and the attributes that later kernels added. Fields from ResponseLength on are zero,
// because the kernel does not know them.
func (c *Context) QueryDeviceEx() (abi.ExQueryDeviceResp, error) {
	var resp abi.ExQueryDeviceResp
	err := c.extended(abi.CmdExQueryDevice, BytesOf(&abi.ExQueryDevice{}), BytesOf(&resp))
	return resp, err
}

// QueryPort returns the attributes of a port. Ports count from 1.
func (c *Context) QueryPort(port uint8) (abi.QueryPortResp, error) {
	var resp abi.QueryPortResp
	err := call(c, abi.CmdQueryPort, &abi.QueryPort{PortNum: port}, &resp, Driver{})
	return resp, err
}

// PKey reads an entry of a port's P_Key table. There is no command for it, so it is read from sysfs.
func (c *Context) PKey(port uint8, index int) (uint16, error) {
	path := fmt.Sprintf("%s/ports/%d/pkeys/%d", c.device.SysPath, port, index)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("P_Key %d of port %d of %s: %w", index, port, c.device.Name, err)
	}
	key, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 16)
	if err != nil {
		return 0, fmt.Errorf("P_Key %d of port %d of %s: %w", index, port, c.device.Name, err)
	}
	return uint16(key), nil
}
