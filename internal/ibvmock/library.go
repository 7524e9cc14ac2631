package ibvmock

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/dlopen"
)

// Library is the mock, loaded into this process, and what tests can change and ask for. All tests of a process share it. When a
// test ends, the behaviours that it has set end too; its devices stay.
type Library struct {
	tb testing.TB

	start      func() int32
	reset      func()
	addDevice  func(list string)
	devices    func() int32
	function   func(i int32) string
	calls      func(name string) int64
	refuse     func(name string, skip, count uint32, errno int32) int32
	set        func(name string, v int64) int32
	get        func(name string) int64
	lastModify func(a *ibv.QPAttr) int32
	setPort    func(device, what string, v int64) int32
	setPKey    func(device string, index, key uint32) int32
	setGID     func(device string, index uint32, gid *[16]byte, kind uint32) int32
	raiseQP    func(num uint32, event int32) int32
	breakQP    func(num uint32) int32
	describe   func(device string, to *description) int32
}

// description is struct description of control.c.
type description struct {
	guid           uint64
	state          uint32
	lid, pkeyCount uint16
	pkeys          [128]uint16
	gidTypes       [16]uint32
	gidUsed        [16]bool
	gids           [16][16]byte
}

// Load loads the library into this process. Provider libibverbs of package verbs uses it from then on, unless it has loaded the
// real one before.
func Load(tb testing.TB) *Library {
	tb.Helper()
	l := &Library{tb: tb}
	path := filepath.Join(Build(tb), soname)
	err := dlopen.Load(&dlopen.Library{Name: path, Packages: packages}, dlopen.Symbols{
		"ibvmock_start": &l.start, "ibvmock_reset": &l.reset, "ibvmock_add_devices": &l.addDevice, "ibvmock_devices": &l.devices,
		"ibvmock_function": &l.function,
		"ibvmock_calls":    &l.calls, "ibvmock_refuse": &l.refuse, "ibvmock_set": &l.set, "ibvmock_get": &l.get,
		"ibvmock_last_modify": &l.lastModify, "ibvmock_set_port": &l.setPort, "ibvmock_set_pkey": &l.setPKey,
		"ibvmock_set_gid": &l.setGID, "ibvmock_raise_qp": &l.raiseQP, "ibvmock_break_qp": &l.breakQP,
		"ibvmock_describe": &l.describe,
	})
	if err != nil {
		tb.Fatal(err)
	}
	if errno := l.start(); errno != 0 {
		tb.Fatalf("start the mock of libibverbs: %v", syscall.Errno(errno))
	}
	l.reset()
	tb.Cleanup(l.reset)
	return l
}

// Profile is a kind of device.
type Profile struct {
	Name      string
	LinkLayer hw.LinkLayer
	// Provider is the driver of rdma-core that such a device has.
	Provider string
}

// Profiles returns the profiles of the library, in the order of its table.
func Profiles() []Profile {
	return []Profile{
		{"mlx5_ib", hw.LinkInfiniBand, "mlx5"},
		{"mlx5_ib_lmc", hw.LinkInfiniBand, "mlx5"},
		{"mlx5_vf", hw.LinkInfiniBand, "mlx5"},
		{"mlx5_roce", hw.LinkEthernet, "mlx5"},
		{"bnxt_re", hw.LinkEthernet, "bnxt_re"},
		{"irdma", hw.LinkEthernet, "irdma"},
		{"ionic", hw.LinkEthernet, "ionic"},
		{"hfi1", hw.LinkInfiniBand, "hfi1verbs"},
		{"noinline", hw.LinkEthernet, "mock"},
		{"small", hw.LinkEthernet, "mock"},
	}
}

// NewDevice adds a device with a new name to the machine. It returns what [Library.Device] returns.
func (l *Library) NewDevice(profile string) hw.RDMADevice {
	l.tb.Helper()
	n := l.devices()
	name := fmt.Sprintf("%s_%d", profile, n)
	l.addDevice(name + "=" + profile)
	if l.devices() != n+1 {
		l.tb.Fatalf("the mock of libibverbs cannot add device %s", name)
	}
	return l.Device(name, profile)
}

// Device describes a device as package hw does.
func (l *Library) Device(name, profile string) hw.RDMADevice {
	l.tb.Helper()
	all := Profiles()
	p := all[slices.IndexFunc(all, func(p Profile) bool { return p.Name == profile })]
	d := new(description) // C writes it, so it must be in the heap
	l.check(l.describe(name, d), "describe %s", name)
	const active = 4 // enum ibv_port_state
	port := hw.RDMAPort{Number: 1, State: "DOWN", PhysState: "Disabled", Rate: 100e9, LinkLayer: p.LinkLayer, LID: d.lid}
	if d.state == active {
		port.State, port.PhysState = hw.PortActive, "LinkUp"
	}
	if p.LinkLayer == hw.LinkEthernet {
		port.Netdev = "mock0"
	} else {
		port.SMLID = 1
	}
	types := [...]hw.GIDType{hw.GIDInfiniBand, hw.GIDRoCEv1, hw.GIDRoCEv2}
	for i, used := range d.gidUsed {
		if used {
			port.GIDs = append(port.GIDs, hw.GID{Index: i, Addr: netip.AddrFrom16(d.gids[i]), Type: types[d.gidTypes[i]],
				Netdev: port.Netdev})
		}
	}
	for i, key := range d.pkeys[:d.pkeyCount] {
		if key != 0 {
			port.PKeys = append(port.PKeys, make([]uint16, i+1-len(port.PKeys))...)
			port.PKeys[i] = key
		}
	}
	return hw.RDMADevice{Name: name, Type: hw.NodeCA, Provider: p.Provider, NodeGUID: hw.GUID(d.guid), SysImageGUID: hw.GUID(d.guid),
		NUMA: -1, Ports: []hw.RDMAPort{port}, Chars: []hw.CharDevice{{Kind: "uverbs", Name: "uverbs0"}}}
}

// Environment returns the variables with which a program uses the library in this directory. devices is a list NAME=PROFILE, with
// @FABRIC behind the profile for a network of its own, and commas between. Programs that are to reach each other name the same
// directory for their network, which must be empty before the first of them; with "" the program is alone.
func Environment(library, network, devices string) []string {
	return []string{"LD_LIBRARY_PATH=" + library, "IBVMOCK_DIR=" + network, "IBVMOCK_DEVICES=" + devices}
}

// check fails the test if a call has returned an error.
func (l *Library) check(result int32, format string, args ...any) {
	l.tb.Helper()
	if result != 0 {
		l.tb.Fatalf("the mock of libibverbs cannot "+format, args...)
	}
}

// Calls returns how often the process has called a function, such as ibv_create_qp or ibv_poll_cq.
func (l *Library) Calls(function string) uint64 {
	l.tb.Helper()
	n := l.calls(function)
	if n < 0 {
		l.tb.Fatalf("the mock of libibverbs does not count calls of %s", function)
	}
	return uint64(n)
}

// NoReason is the errno of calls that fail without one, as some drivers do: they return NULL or -1, and errno stays 0.
const NoReason = syscall.Errno(1<<32 - 1)

// Functions returns the names of the functions that the library counts and can refuse.
func (l *Library) Functions() (names []string) {
	for i := int32(0); ; i++ {
		name := l.function(i)
		if name == "" {
			return names
		}
		names = append(names, name)
	}
}

// Always is a number of calls that never ends.
const Always = 1<<32 - 1

// Refuse makes calls of a function fail: count of them, after the next skip.
func (l *Library) Refuse(function string, skip, count uint32, errno syscall.Errno) {
	l.tb.Helper()
	l.check(l.refuse(function, skip, count, int32(errno)), "refuse %s", function)
}

// Set sets a behaviour:
//
//	late            a completion appears after so many polls
//	flush_late      a completion of a flushed request, and the event LAST_WQE_REACHED, appear after so many polls
//	hold            1: no completion appears; 0: those that were held appear
//	discards        1: the completions of a destroyed or reset queue pair disappear; 0: they stay; -1: as the profile says
//	drop_datagrams  the next so many datagrams are lost
//	instant         1: every send request succeeds at once, and nothing is sent
//	speed           all timeouts are divided by it
//	stack           the functions of the data path use so many bytes of their caller's stack
//	measure_stack   1: the functions of the data path measure their stack from now on, see Get
func (l *Library) Set(name string, v int64) {
	l.tb.Helper()
	l.check(l.set(name, v), "set %s to %d", name, v)
}

// Get returns a figure:
//
//	pinned, pinned_most  bytes that are registered, and the most that were
//	queue_pairs          those of this process
//	stack_before         the most bytes of a stack that were in use when a function of the data path was called
//	stack_room           the least bytes that were left then, down to the start of the mapping of the stack
//	stack_used           the most bytes that such a function has used; the last call on each stack is not counted
func (l *Library) Get(name string) int64 {
	l.tb.Helper()
	v := l.get(name)
	if v < 0 {
		l.tb.Fatalf("the mock of libibverbs has no figure %s", name)
	}
	return v
}

// LastModify returns the arguments of the last call of ibv_modify_qp.
func (l *Library) LastModify() (ibv.QPAttr, uverbs.QPAttrMask) {
	a := new(ibv.QPAttr) // C writes it, so it must be in the heap
	mask := l.lastModify(a)
	return *a, uverbs.QPAttrMask(mask)
}

// SetPortState brings the port up or down, and raises PORT_ACTIVE or PORT_ERR.
func (l *Library) SetPortState(device string, up bool) {
	l.tb.Helper()
	const down, active = 1, 4 // enum ibv_port_state
	state := int64(down)
	if up {
		state = active
	}
	l.check(l.setPort(device, "state", state), "change the port of %s", device)
}

// SetLID changes the LID, and raises LID_CHANGE.
func (l *Library) SetLID(device string, lid uint16) {
	l.tb.Helper()
	l.check(l.setPort(device, "lid", int64(lid)), "change the LID of %s", device)
}

// SetMTU changes the active MTU, an enum ibv_mtu. There is no event for that.
func (l *Library) SetMTU(device string, mtu uint8) {
	l.tb.Helper()
	l.check(l.setPort(device, "mtu", int64(mtu)), "change the MTU of %s", device)
}

// SetLost makes every call for the device fail with EIO, and raises DEVICE_FATAL; or ends that.
func (l *Library) SetLost(device string, lost bool) {
	l.tb.Helper()
	v := int64(0)
	if lost {
		v = 1
	}
	l.check(l.setPort(device, "fatal", v), "lose %s", device)
}

// RaisePortEvent raises an event of the port, or of the device.
func (l *Library) RaisePortEvent(device string, event uverbs.EventType) {
	l.tb.Helper()
	l.check(l.setPort(device, "event", int64(event)), "raise an event of %s", device)
}

// SetPKey changes an entry of the table of partitions, and raises PKEY_CHANGE.
func (l *Library) SetPKey(device string, index int, key uint16) {
	l.tb.Helper()
	l.check(l.setPKey(device, uint32(index), uint32(key)), "change partition %d of %s", index, device)
}

// SetGID changes an entry of the table of addresses, and raises GID_CHANGE. A nil gid removes the entry. kind is an enum
// ibv_gid_type.
func (l *Library) SetGID(device string, index int, gid *[16]byte, kind uint32) {
	l.tb.Helper()
	l.check(l.setGID(device, uint32(index), gid, kind), "change GID %d of %s", index, device)
}

// RaiseQPEvent raises an event of the queue pair with this number.
func (l *Library) RaiseQPEvent(qpn uint32, event uverbs.EventType) {
	l.tb.Helper()
	l.check(l.raiseQP(qpn, int32(event)), "raise an event of queue pair %#x", qpn)
}

// BreakQP brings the queue pair with this number to the error state, as a fault of the device does.
func (l *Library) BreakQP(qpn uint32) {
	l.tb.Helper()
	l.check(l.breakQP(qpn), "break queue pair %#x", qpn)
}
