//go:build unix

package rxetest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/abi/rxe"
	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Limits of the device.
const (
	MaxQPWR     = 1024
	MaxCQE      = 4096
	CompVectors = 3
)

// Kernel is a simulated kernel with one device. Its methods may be called by any goroutine at any time.
type Kernel struct {
	mu            sync.Mutex
	fails         map[abi.Command]error
	doorbellsHeld bool
	refusedAccess uint32
	refusedRegs   int
	lost          bool
	lastID        uint32            // last handle, queue pair number and offset
	kinds         map[uint32]string // of objects, by handle
	cqs           map[uint32]*cq    // by handle
	qps           map[uint32]*qp    // by handle
	rqs           map[uint32]*ring  // shared receive queues by handle
	maps          map[int64][]byte  // rings that are not mapped yet, by offset
	mapped        map[*byte]bool    // rings that are mapped, by their first byte
	pipes         map[int]*pipe     // by the descriptor that a command returned
	async         *pipe
}

type cq struct {
	token     uint64
	vector    int
	ring      ring
	events    *pipe
	armed     bool
	solicited bool
}

type qp struct {
	num, peer uint32
	token     uint64
	state     uint8
	signalAll bool // every send makes a completion
	send      ring
	recv      *ring
	scq, rcq  *cq
}

// New returns a kernel whose device has one active port.
func New() *Kernel {
	return &Kernel{fails: map[abi.Command]error{}, kinds: map[uint32]string{}, cqs: map[uint32]*cq{}, qps: map[uint32]*qp{},
		rqs: map[uint32]*ring{}, maps: map[int64][]byte{}, mapped: map[*byte]bool{}, pipes: map[int]*pipe{}}
}

// Device returns the device as package hw would describe it.
func (k *Kernel) Device() hw.RDMADevice {
	return hw.RDMADevice{Name: "rxe0", Type: hw.NodeCA, Provider: "rxe",
		Ports: []hw.RDMAPort{{Number: 1, State: hw.PortActive, LinkLayer: hw.LinkEthernet, Netdev: "eth0", GIDs: []hw.GID{
			{Index: 0, Addr: netip.MustParseAddr("fe80::1"), Type: hw.GIDRoCEv2, Netdev: "eth0"},
			{Index: 1, Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: hw.GIDRoCEv2, Netdev: "eth0"},
		}}},
		Chars: []hw.CharDevice{{Kind: "uverbs", Name: "uverbs0", Major: 231, Minor: 192}},
	}
}

// Fail makes commands of this kind fail from now on, or with nil succeed again.
func (k *Kernel) Fail(c abi.Command, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fails[c] = err
}

// RefuseAccess makes registrations of memory with one of these access flags fail from now on.
func (k *Kernel) RefuseAccess(flags uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refusedAccess = flags
}

// RefusedRegistrations returns how many registrations RefuseAccess has made fail.
func (k *Kernel) RefusedRegistrations() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refusedRegs
}

// HoldDoorbells makes doorbells have no effect. The first doorbell after HoldDoorbells(false) completes what was posted
// meanwhile.
func (k *Kernel) HoldDoorbells(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doorbellsHeld = on
}

// RaiseEvent raises an asynchronous event.
func (k *Kernel) RaiseEvent(t abi.EventType, element uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.raiseLocked(t, element)
}

func (k *Kernel) raiseLocked(t abi.EventType, element uint64) {
	b := binary.NativeEndian.AppendUint64(nil, element)
	b = binary.NativeEndian.AppendUint32(b, uint32(t))
	k.async.send(append(b, 0, 0, 0, 0))
}

// RemoveDevice removes the device: every command fails with EIO, and the event DEVICE_FATAL is raised.
func (k *Kernel) RemoveDevice() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = true
	clear(k.kinds)
	k.raiseLocked(abi.EventDeviceFatal, 0)
}

// CQVectors returns how many open completion queues each completion vector has.
func (k *Kernel) CQVectors() (n [CompVectors]int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range k.cqs {
		n[q.vector]++
	}
	return n
}

// OpenObjects describes what is not closed yet. It returns "" if there is nothing.
func (k *Kernel) OpenObjects() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kinds)+len(k.mapped)+len(k.maps)+len(k.pipes) == 0 {
		return ""
	}
	return fmt.Sprintf("objects %v, %d mappings, %d descriptors", k.kinds, len(k.mapped)+len(k.maps), len(k.pipes))
}

func (k *Kernel) newHandle(kind string) uint32 {
	k.lastID++
	k.kinds[k.lastID] = kind
	return k.lastID
}

// newRing creates a ring for n entries, which Mmap can then map.
func (k *Kernel) newRing(n, slot int) (ring, rxe.MmapInfo, error) {
	r, err := newRing(n, slot)
	if err != nil {
		return ring{}, rxe.MmapInfo{}, err
	}
	k.lastID++
	at := int64(k.lastID) << 12
	k.maps[at] = r.mem
	return r, rxe.MmapInfo{Offset: uint64(at), Size: uint32(len(r.mem))}, nil
}

// Open is a method of uverbs.Kernel, as all methods below.
func (k *Kernel) Open(string) (fd int, rdev uint64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, err := k.pipe()
	if err != nil {
		return -1, 0, err
	}
	return p.read, 231<<8 | 192, nil
}

// pipe creates a descriptor to which events can be sent.
func (k *Kernel) pipe() (*pipe, error) {
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		return nil, err
	}
	p := &pipe{read: ends[0], write: ends[1]}
	k.pipes[p.read] = p
	return p, nil
}

type pipe struct{ read, write int }

func (p *pipe) send(b []byte) { syscall.Write(p.write, b) }

// Ioctl supports no method, like kernels before 5.10.
func (k *Kernel) Ioctl(int, []byte, []byte) error { return syscall.ENOTTY }

// Mmap returns the memory of a ring. A ring can be mapped once.
func (k *Kernel) Mmap(_ int, offset int64, n int) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	mem, ok := k.maps[offset]
	if !ok || n != len(mem) {
		return nil, syscall.EINVAL
	}
	delete(k.maps, offset)
	k.mapped[&mem[0]] = true
	return mem, nil
}

// Munmap unmaps the memory: later accesses crash the process.
func (k *Kernel) Munmap(mem []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.mapped, &mem[0])
	return syscall.Munmap(mem)
}

// Discard keeps the memory mapped, and counts it as unmapped.
func (k *Kernel) Discard(mem []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.mapped, &mem[0])
	return nil
}

// SetNonblock does what the kernel does.
func (k *Kernel) SetNonblock(fd int) error { return syscall.SetNonblock(fd, true) }

// Close closes both ends of a pipe.
func (k *Kernel) Close(fd int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pipes[fd]
	if p == nil {
		return syscall.EBADF
	}
	delete(k.pipes, fd)
	syscall.Close(p.write)
	return syscall.Close(p.read)
}

// Post is Write. While doorbells are held it allocates nothing.
func (k *Kernel) Post(fd int, command, resp []byte) error {
	k.mu.Lock()
	held := k.doorbellsHeld && !k.lost && abi.Command(binary.NativeEndian.Uint32(command)) == abi.CmdPostSend
	k.mu.Unlock()
	if held {
		return nil
	}
	return k.Write(fd, command, resp)
}
