package ibvmock

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/needtest"
)

// Network is a network of nodes, all of which are this machine. They have a network namespace of their own, which they share.
type Network struct {
	tb      testing.TB
	library string // the directory of [Build]
	dir     string // IBVMOCK_DIR
	pid     string // of the process that keeps the namespace
}

// NewNetwork returns a network without nodes. Without iproute2, or if this machine does not permit namespaces, the test is
// skipped; in CI it fails.
func NewNetwork(tb testing.TB) *Network {
	tb.Helper()
	n := &Network{tb: tb, library: Build(tb), dir: tb.TempDir()}
	needtest.Program(tb, "ip", "iproute2")
	hold := exec.Command(filepath.Join(n.library, machine), "hold")
	hold.Env = n.environment("", "")
	var problem bytes.Buffer
	hold.Stderr = &problem
	stdin, err := hold.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := hold.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := hold.Start(); err != nil {
		tb.Fatal(err)
	}
	_, readErr := fmt.Fscanf(stdout, "ready\n")
	end := func() error { return errors.Join(stdin.Close(), hold.Wait()) } // the end of its input ends the process
	if readErr != nil {
		err := end() // before problem is read: only then all is there
		needtest.Missing(tb, "the right to make namespaces, as root or in a user namespace: %v: %s", err, &problem)
	}
	tb.Cleanup(func() {
		if err := end(); err != nil {
			tb.Errorf("%v: %s", err, &problem)
		}
	})
	n.pid = strconv.Itoa(hold.Process.Pid)
	n.ip([]string{"link set lo up"})
	return n
}

// environment returns the variables of the processes of a node.
func (n *Network) environment(node, devices string) []string {
	return append(os.Environ(), append(Environment(n.library, n.dir, devices), "IBVMOCK_NODE="+node)...)
}

// ip changes the interfaces of the network by commands of ip(8).
func (n *Network) ip(commands []string) {
	n.tb.Helper()
	cmd := exec.Command(filepath.Join(n.library, machine), "run", n.pid, "", "ip", "-batch", "-")
	cmd.Env = n.environment("", "")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		n.tb.Fatalf("ip -batch: %v\n%s", err, out)
	}
}

// Node is a node of a Network. Its programs see its devices in /sys/class/infiniband and /dev/infiniband, and none of the RDMA
// devices that this machine may have. All other files are those of this machine.
type Node struct {
	network     *Network
	tree        string
	environment []string
}

// NewNode adds a node. devices is a list as for [Environment]: "mlx5_0=mlx5_ib,mlx5_1=mlx5_roce@1" is an InfiniBand adapter and
// a RoCE adapter on another fabric.
func (n *Network) NewNode(name, devices string) *Node {
	n.tb.Helper()
	m := &Node{network: n, tree: n.tb.TempDir(), environment: n.environment(name, devices)}
	m.machine("tree", m.tree)
	m.install()
	var commands []string
	for _, d := range m.Devices() {
		for _, p := range d.Ports {
			if p.LinkLayer == hw.LinkEthernet {
				commands = append(commands, m.interfaceOf(d.Name, p)...)
			}
		}
	}
	if commands != nil {
		n.ip(commands)
	}
	return m
}

// machine runs the program of machine.c as a process of the node.
func (m *Node) machine(args ...string) {
	m.network.tb.Helper()
	cmd := exec.Command(filepath.Join(m.network.library, machine), args...)
	cmd.Env = m.environment
	if out, err := cmd.CombinedOutput(); err != nil {
		m.network.tb.Fatalf("machine %v: %v\n%s", args, err, out)
	}
}

// install makes a directory of libraries as a distribution has it: libibverbs, and an (empty) file for each driver.
func (m *Node) install() {
	tb := m.network.tb
	tb.Helper()
	drivers := filepath.Join(m.tree, "lib", "libibverbs")
	if err := os.MkdirAll(drivers, 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(m.network.library, soname), filepath.Join(m.tree, "lib", soname)); err != nil {
		tb.Fatal(err)
	}
	for _, d := range m.Devices() {
		if err := os.WriteFile(filepath.Join(drivers, "lib"+d.Provider+"-rdmav34.so"), nil, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	m.environment = append(m.environment, "LD_LIBRARY_PATH="+filepath.Join(m.tree, "lib"))
}

// interfaceOf returns the commands that make the interface of an Ethernet port, with the addresses in its GIDs. It is one end of
// a pair, so that it is up.
func (m *Node) interfaceOf(device string, p hw.RDMAPort) []string {
	m.network.tb.Helper()
	text, err := os.ReadFile(filepath.Join(m.tree, "sys/class/infiniband", device, "device/net", p.Netdev, "mtu"))
	if err != nil {
		m.network.tb.Fatal(err)
	}
	mtu, name := strings.TrimSpace(string(text)), p.Netdev
	commands := []string{fmt.Sprintf("link add %s mtu %s type veth peer name %sb mtu %s", name, mtu, name, mtu),
		"link set " + name + " up", "link set " + name + "b up"}
	done := map[netip.Addr]bool{}
	for _, g := range p.GIDs {
		if a := g.Addr.Unmap(); !done[a] {
			done[a] = true
			bits := 64
			if a.Is4() {
				bits = 24
			}
			commands = append(commands, fmt.Sprintf("addr add %s/%d dev %s", a, bits, name))
		}
	}
	return commands
}

// Devices returns the devices of the node, as package hw reads them from its files.
func (m *Node) Devices() []hw.RDMADevice {
	m.network.tb.Helper()
	devices, err := hw.ReadRDMA(os.DirFS(m.tree))
	if err != nil {
		m.network.tb.Fatal(err)
	}
	return devices
}

// Command returns the command of a program on the node. The process ID of the command is that of the program.
func (m *Node) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(m.network.library, machine),
		append([]string{"run", m.network.pid, m.tree, name}, args...)...)
	cmd.Env = m.environment
	return cmd
}

// Refuse makes the devices refuse all calls of a function with an errno, in programs that are started from now on.
func (m *Node) Refuse(function string, errno syscall.Errno) {
	m.RefuseSome(Refusal{Function: function, Errno: errno, Count: Always})
}

// Refusal says which calls are refused in each program of a node.
type Refusal struct {
	Function string
	Errno    syscall.Errno
	Skip     uint32 // calls before that succeed
	Count    uint32 // calls that are refused then, or Always
	Device   string // whose calls count; empty: those of all devices do
}

// RefuseSome is Refuse for some calls. It takes the place of what was refused before.
func (m *Node) RefuseSome(r Refusal) {
	entry := fmt.Sprintf("IBVMOCK_REFUSE=%s=%d:%d:%d", r.Function, r.Errno, r.Skip, r.Count)
	if r.Device != "" {
		entry += ":" + r.Device
	}
	m.environment = append(m.environment, entry)
}

// Set changes a device while programs run, with its files and the event that a device raises:
//
//	state  of the port, an enum ibv_port_state: 1 down, 4 active
//	lid    of the port
//	mtu    the active MTU, an enum ibv_mtu
//	fatal  1: every call for the device fails with EIO
//	event  an enum ibv_event_type: nothing changes, but the event is raised
func (m *Node) Set(device, what string, v int64) {
	m.network.tb.Helper()
	m.machine("set", device, what, strconv.FormatInt(v, 10))
	m.machine("tree", m.tree)
}

// SetPKey changes an entry of the table of partitions, with its file and the event.
func (m *Node) SetPKey(device string, index int, key uint16) {
	m.network.tb.Helper()
	m.machine("pkey", device, strconv.Itoa(index), strconv.Itoa(int(key)))
	m.machine("tree", m.tree)
}

// RemoveGID removes an entry of the table of addresses, with its files and the event.
func (m *Node) RemoveGID(device string, index int) {
	m.network.tb.Helper()
	m.machine("gid", device, strconv.Itoa(index))
	m.machine("tree", m.tree)
}

// Remove removes a device with its files, as the kernel does when an adapter is pulled out or its driver is unloaded. The
// programs that have opened the device get errors.
func (m *Node) Remove(device string) {
	m.network.tb.Helper()
	m.machine("set", device, "fatal", "1")
	files, err := filepath.Glob(filepath.Join(m.tree, "sys/class/infiniband_verbs/uverbs*"))
	if err != nil {
		m.network.tb.Fatal(err)
	}
	files = append(files, filepath.Join(m.tree, "sys/class/infiniband", device))
	for _, file := range files {
		owner, err := os.ReadFile(filepath.Join(file, "ibdev"))
		if err == nil && strings.TrimSpace(string(owner)) != device {
			continue
		}
		if err := os.RemoveAll(file); err != nil {
			m.network.tb.Fatal(err)
		}
	}
}
