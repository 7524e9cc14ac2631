package perfmem

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// AgentFD is the descriptor under which the agent inherits the memory. A process that may inspect the agent's descriptors can
// open the memory as /proc/PID/fd/4.
const AgentFD = 4

// Memory is an anonymous file in which the ranks of this node record what they do. It contains one page for each rank, in the
// order of the ranks, then the traces, then the profiles. It uses physical memory only for the ranks that have mapped theirs, and
// for traces and profiles only where they have written. The file exists as long as one of ibrun, the agent and the ranks does.
// All methods except Read accept a nil Memory.
type Memory struct {
	seg    *shm.Segment
	ranks  int
	rankFD int // the descriptor under which ranks inherit it

	mu  sync.RWMutex // held while mem is read
	mem []byte       // nil in the agent, which only passes the descriptor to ranks, and after Close
}

// rankBytes is the number of bytes in the file for one rank.
const rankBytes = perf.PageBytes + perf.TraceBytes + profile.Bytes

// New creates the memory for that many ranks and maps their pages. For no ranks it returns nil.
func New(ranks int) (*Memory, error) {
	if ranks == 0 {
		return nil, nil
	}
	seg, err := shm.Create(int64(ranks) * rankBytes)
	if err != nil {
		return nil, fmt.Errorf("allocate the memory in which ranks record: %w", err)
	}
	// A rank allocates its page when it maps it, so programs without MPI take no memory. Before that only the beginning is read.
	for i := range ranks {
		if err == nil {
			err = seg.Allocate(int64(i)*perf.PageBytes, os.Getpagesize())
		}
	}
	var mem []byte
	if err == nil {
		mem, err = seg.Reserve(0, ranks*perf.PageBytes)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("allocate the memory in which ranks record: %w", err), seg.Close())
	}
	return &Memory{seg: seg, ranks: ranks, mem: mem}, nil
}

// Inherit returns the memory that the agent has inherited from ibrun. Ranks inherit it as descriptor rankFD. That should be
// higher than the descriptors that a rank opens itself, so that a program that does not know it keeps it open.
func Inherit(ranks, rankFD int) (*Memory, error) {
	seg, err := shm.Open(AgentFD)
	if err != nil {
		return nil, err
	}
	return &Memory{seg: seg, ranks: ranks, rankFD: rankFD}, nil
}

// FD returns the descriptor to be inherited. For a nil Memory it is ^0, which means a closed descriptor.
func (m *Memory) FD() uintptr {
	if m == nil {
		return ^uintptr(0)
	}
	return uintptr(m.seg.FD())
}

// PageOf returns where a rank of this node finds its page.
func (m *Memory) PageOf(local int) *ranklink.FileRange {
	if m == nil {
		return nil
	}
	return &ranklink.FileRange{FD: m.rankFD, Offset: int64(local) * perf.PageBytes, Bytes: perf.PageBytes}
}

// TraceOf returns where a rank of this node finds the memory for its trace.
func (m *Memory) TraceOf(local int) *ranklink.FileRange {
	if m == nil {
		return nil
	}
	at := int64(m.ranks)*perf.PageBytes + int64(local)*perf.TraceBytes
	return &ranklink.FileRange{FD: m.rankFD, Offset: at, Bytes: perf.TraceBytes}
}

// ProfileOf returns where a rank of this node finds the memory for its profiles.
func (m *Memory) ProfileOf(local int) *ranklink.FileRange {
	if m == nil {
		return nil
	}
	at := int64(m.ranks)*(perf.PageBytes+perf.TraceBytes) + int64(local)*profile.Bytes
	return &ranklink.FileRange{FD: m.rankFD, Offset: at, Bytes: profile.Bytes}
}

// Read returns the used part of what a rank that has exited was given. It reads the first head bytes, from which used computes
// the length. Nothing is mapped, so parts that were never written use no memory.
func (m *Memory) Read(at *ranklink.FileRange, head int, used func([]byte) int) ([]byte, error) {
	if at == nil {
		return nil, nil
	}
	b := make([]byte, head)
	for {
		if _, err := unix.Pread(m.seg.FD(), b, at.Offset); err != nil {
			return nil, fmt.Errorf("read the records of a rank: %w", err)
		}
		n := min(used(b), at.Bytes)
		if n <= len(b) {
			return b[:n], nil
		}
		b = make([]byte, n)
	}
}

// Record is the snapshot of a rank's page. If the rank has not written its page, which programs of other MPI libraries never
// do, both Snapshot and Err are nil.
type Record struct {
	Snapshot *perf.Snapshot
	Err      error
}

// Records reads the pages of this node's ranks, in their order. Any goroutine may call it. After Close it returns none.
func (m *Memory) Records() []Record {
	if m == nil {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	ranks := make([]Record, len(m.mem)/perf.PageBytes)
	for i := range ranks {
		at, err := perf.Open(m.mem[i*perf.PageBytes:][:perf.PageBytes])
		if err == nil {
			ranks[i].Snapshot, err = at.Snapshot()
		}
		if !errors.Is(err, perf.ErrEmpty) {
			ranks[i].Err = err
		}
	}
	return ranks
}

// Pack returns the compressed page of a rank of this node, to be sent to the coordinator. It
// returns nil if no rank has written the page, or if there is no memory.
func (m *Memory) Pack(local int) ([]byte, error) {
	if m == nil {
		return nil, nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.mem == nil {
		return nil, nil
	}
	return packPage(m.mem[local*perf.PageBytes:][:perf.PageBytes])
}

// Activities returns the activity of each rank of this node, in their order. The activity of a page that cannot
// be read is zero, and err is the reason for the first such page. Any goroutine may call it, often. After Close it returns
// none.
func (m *Memory) Activities() (ranks []perf.Activity, err error) {
	if m == nil {
		return nil, nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	ranks = make([]perf.Activity, len(m.mem)/perf.PageBytes)
	for i := range ranks {
		at, errOpen := perf.Open(m.mem[i*perf.PageBytes:][:perf.PageBytes])
		if errOpen == nil {
			ranks[i] = at.Activity()
		} else if err == nil && !errors.Is(errOpen, perf.ErrEmpty) {
			err = errOpen
		}
	}
	return ranks, err
}

// LastCall returns the call that a rank of this node made last, the zero Call if it is not known, and the calls in progress. Any
// goroutine may call it.
func (m *Memory) LastCall(local int) (last perf.Call, current []perf.Current) {
	m.withPage(local, func(p *perf.Page) {
		last = p.LastCall()
		if s, err := p.Snapshot(); err == nil { // a page that is not valid is reported where the samples are taken
			current = s.Current
		}
	})
	return last, current
}

// LostPeer reports whether a rank of this node has recorded that an operation has failed because another process is gone. Any
// goroutine may call it.
func (m *Memory) LostPeer(local int) (lost bool) {
	m.withPage(local, func(p *perf.Page) { lost = p.LostPeer() })
	return lost
}

// withPage calls read with the page of a rank of this node, unless the rank has not written it.
func (m *Memory) withPage(local int, read func(*perf.Page)) {
	if m == nil {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.mem == nil {
		return
	}
	if page, err := perf.Open(m.mem[local*perf.PageBytes:][:perf.PageBytes]); err == nil {
		read(page)
	}
}

// Close unmaps and closes the memory.
func (m *Memory) Close() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if m.mem != nil {
		err = os.NewSyscallError("munmap", unix.Munmap(m.mem))
		m.mem = nil
	}
	return errors.Join(err, m.seg.Close())
}
