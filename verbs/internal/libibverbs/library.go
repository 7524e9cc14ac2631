//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"fmt"
	"runtime"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/dlopen"
)

const (
	soname   = "libibverbs.so.1"
	packages = "the packages libibverbs1 and ibverbs-providers (Debian, Ubuntu), or libibverbs and rdma-core (Fedora, SUSE)"
	version  = "rdma-core 12 or newer"
)

// Functions that the library may lack, and the versions since which it has them.
const (
	queryGIDTable     = "_ibv_query_gid_table" // 32; without it package verbs reads the table from sysfs
	regMRIova2        = "ibv_reg_mr_iova2"     // 28; without it ibv_reg_mr registers memory for local addresses
	regDmabufMR       = "ibv_reg_dmabuf_mr"    // 34
	reregMR           = "ibv_rereg_mr"         // 12, but some vendors' libraries are forks of an older libibverbs
	queryGIDTableNeed = "rdma-core 32 or newer"
	regMRIova2Need    = "rdma-core 28 or newer"
	regDmabufMRNeed   = "rdma-core 34 or newer, Linux 5.12 or newer, and a device whose driver can register dma-bufs, such as mlx5"
)

// library is the loaded library: its functions, with the types of infiniband/verbs.h. Pointers to memory of C are uintptr and
// called addresses here. Pointers to Go memory are typed, and C does not keep them.
type library struct {
	getDeviceList  func(n *int32) uintptr
	freeDeviceList func(list uintptr)
	getDeviceName  func(device uintptr) string
	openDevice     func(device uintptr) uintptr
	closeDevice    func(ctx uintptr) int32
	queryDevice    func(ctx uintptr, a *ibv.DeviceAttr) int32
	queryPort      func(ctx uintptr, port uint8, a *ibv.PortAttr) int32
	queryGIDTable  func(ctx uintptr, e *uverbs.GIDEntry, max uint64, flags uint32, size uint64) int64 // or nil
	queryPKey      func(ctx uintptr, port uint8, index int32, pkey *[2]byte) int32
	getAsyncEvent  func(ctx uintptr, e *ibv.AsyncEvent) int32
	ackAsyncEvent  func(e *ibv.AsyncEvent)

	allocPD   func(ctx uintptr) uintptr
	deallocPD func(pd uintptr) int32
	regMR     func(pd, addr, length uintptr, access int32) uintptr
	reregMR   func(mr uintptr, flags int32, pd, addr, length uintptr, access int32) int32 // or nil
	deregMR   func(mr uintptr) int32

	regMRIova2  func(pd, addr, length uintptr, iova uint64, access uint32) uintptr                     // or nil
	regDmabufMR func(pd uintptr, offset uint64, length uintptr, iova uint64, fd, access int32) uintptr // or nil

	createAH  func(pd uintptr, a *ibv.AHAttr) uintptr
	destroyAH func(ah uintptr) int32

	createChannel  func(ctx uintptr) uintptr
	destroyChannel func(ch uintptr) int32
	createCQ       func(ctx uintptr, n int32, cqContext, ch uintptr, vector int32) uintptr
	resizeCQ       func(cq uintptr, n int32) int32
	destroyCQ      func(cq uintptr) int32
	getCQEvent     func(ch uintptr, cq, cqContext *uintptr) int32
	ackCQEvents    func(cq uintptr, n uint32)

	createQP    func(pd uintptr, a *ibv.QPInitAttr) uintptr
	modifyQP    func(qp uintptr, a *ibv.QPAttr, mask int32) int32
	queryQP     func(qp uintptr, a *ibv.QPAttr, mask int32, init *ibv.QPInitAttr) int32
	destroyQP   func(qp uintptr) int32
	attachMcast func(qp uintptr, gid *[16]byte, lid uint16) int32
	detachMcast func(qp uintptr, gid *[16]byte, lid uint16) int32
	createSRQ   func(pd uintptr, a *ibv.SRQInitAttr) uintptr
	modifySRQ   func(srq uintptr, a *ibv.SRQAttr, mask int32) int32
	querySRQ    func(srq uintptr, a *ibv.SRQAttr) int32
	destroySRQ  func(srq uintptr) int32

	errno func() *int32 // of the calling thread

	callDataPath func(fn, a, b, c uintptr) uintptr // calls a function of struct ibv_context: stacks.call
}

// symbols returns the names by which the dynamic linker finds the functions.
func (l *library) symbols() dlopen.Symbols {
	return dlopen.Symbols{
		"ibv_get_device_list": &l.getDeviceList, "ibv_free_device_list": &l.freeDeviceList,
		"ibv_get_device_name": &l.getDeviceName,
		"ibv_open_device":     &l.openDevice, "ibv_close_device": &l.closeDevice,
		"ibv_query_device": &l.queryDevice, "ibv_query_port": &l.queryPort,
		queryGIDTable: &l.queryGIDTable, "ibv_query_pkey": &l.queryPKey,
		"ibv_get_async_event": &l.getAsyncEvent, "ibv_ack_async_event": &l.ackAsyncEvent,

		"ibv_alloc_pd": &l.allocPD, "ibv_dealloc_pd": &l.deallocPD,
		"ibv_reg_mr": &l.regMR, regMRIova2: &l.regMRIova2, regDmabufMR: &l.regDmabufMR,
		reregMR: &l.reregMR, "ibv_dereg_mr": &l.deregMR,
		"ibv_create_ah": &l.createAH, "ibv_destroy_ah": &l.destroyAH,

		"ibv_create_comp_channel": &l.createChannel, "ibv_destroy_comp_channel": &l.destroyChannel,
		"ibv_create_cq": &l.createCQ, "ibv_resize_cq": &l.resizeCQ, "ibv_destroy_cq": &l.destroyCQ,
		"ibv_get_cq_event": &l.getCQEvent, "ibv_ack_cq_events": &l.ackCQEvents,

		"ibv_create_qp": &l.createQP, "ibv_modify_qp": &l.modifyQP, "ibv_query_qp": &l.queryQP,
		"ibv_destroy_qp":   &l.destroyQP,
		"ibv_attach_mcast": &l.attachMcast, "ibv_detach_mcast": &l.detachMcast,
		"ibv_create_srq": &l.createSRQ, "ibv_modify_srq": &l.modifySRQ, "ibv_query_srq": &l.querySRQ,
		"ibv_destroy_srq": &l.destroySRQ,

		"__errno_location": &l.errno, // of the C library, which is loaded with it
	}
}

// load loads the library with the given name. It is never unloaded, because drivers leave threads and handlers behind.
func load(name string) (*library, error) {
	l := &library{callDataPath: newStacks().call}
	err := dlopen.Load(&dlopen.Library{Name: name, Packages: packages, Version: version,
		Optional: []string{queryGIDTable, regMRIova2, regDmabufMR, reregMR}}, l.symbols())
	if err != nil {
		return nil, err
	}
	return l, nil
}

// create makes a call that returns an address, or 0 and sets errno.
func (l *library) create(call string, f func() uintptr) (uintptr, error) {
	runtime.LockOSThread() // errno belongs to the thread
	defer runtime.UnlockOSThread()
	p := f()
	if p != 0 {
		return p, nil
	}
	return 0, failed(call, *l.errno())
}

// do makes a call that returns 0, an errno, or a negative number and sets errno.
func (l *library) do(call string, f func() int32) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	*l.errno() = 0
	switch r := f(); {
	case r == 0:
		return nil
	case r > 0:
		return failed(call, r)
	default:
		if e := *l.errno(); e != 0 {
			return failed(call, e)
		}
		return failed(call, -r)
	}
}

// failed returns the error of a call. If a driver reports no reason, it is EIO: the device did not respond.
func failed(call string, errno int32) error {
	if errno == 0 {
		return fmt.Errorf("%s: %w", call, syscall.EIO)
	}
	return fmt.Errorf("%s: %w", call, syscall.Errno(errno))
}

// notInLibrary returns the error for a call of an optional function that the library does not have.
func notInLibrary(function, need string) error {
	return &MissingError{What: "function " + function + " of " + soname, Need: need}
}

// noFunction returns the error for a function that the driver does not have in struct ibv_context.
func noFunction(call string) error {
	return fmt.Errorf("%s: the driver of the device does not have this function: %w", call, syscall.EOPNOTSUPP)
}
