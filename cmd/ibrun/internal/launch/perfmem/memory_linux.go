package perfmem

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
	"golang.org/x/sys/unix"
)

// The descriptors under which the memory is inherited. A process that may inspect the agent's descriptors can open the memory
// as /proc/PID/fd/4. RankFD is higher than the descriptors that a rank opens itself, so a program that does not know it keeps
// it open.
const (
	AgentFD = 4
	RankFD  = 101
)

// Memory is the memory in which the ranks of this node record what they do: a file without a name, one page behind the
// other in the order of the ranks, and behind them traces and profiles, which take memory only where there are such. It is there
// as long as one of ibrun, agent and ranks is.
type Memory struct {
	seg   *shm.Segment
	ranks int

	mu  sync.RWMutex // held while mem is looked at
	mem []byte       // nil in the agent, which only passes the descriptor on, and after close
}

// rankBytes is what a rank has of the file.
const rankBytes = perf.PageBytes + perf.TraceBytes + profile.Bytes

// New creates the memory for that many ranks, and maps their pages.
func New(ranks int) (*Memory, error) {
	seg, err := shm.Create(int64(ranks) * rankBytes)
	if err != nil {
		return nil, fmt.Errorf("memory for what the ranks record: %w", err)
	}
	mem, err := seg.Map(0, ranks*perf.PageBytes)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("memory for what the ranks record: %w", err), seg.Close())
	}
	return &Memory{seg: seg, ranks: ranks, mem: mem}, nil
}

// Inherit takes over what ibrun passed to its agent.
func Inherit(ranks int) (*Memory, error) {
	seg, err := shm.Open(AgentFD)
	if err != nil {
		return nil, err
	}
	return &Memory{seg: seg, ranks: ranks}, nil
}

// FD is the descriptor to be inherited, closed where there are no pages.
func (p *Memory) FD() uintptr {
	if p == nil {
		return ^uintptr(0)
	}
	return uintptr(p.seg.FD())
}

// PageOf tells a rank where its page is.
func (p *Memory) PageOf(local int) *ranklink.Page {
	if p == nil {
		return nil
	}
	return &ranklink.Page{FD: RankFD, Offset: int64(local) * perf.PageBytes, Bytes: perf.PageBytes}
}

// TraceOf tells a rank where its trace is, and profileOf where its profiles are.
func (p *Memory) TraceOf(local int) *ranklink.Page {
	if p == nil {
		return nil
	}
	at := int64(p.ranks)*perf.PageBytes + int64(local)*perf.TraceBytes
	return &ranklink.Page{FD: RankFD, Offset: at, Bytes: perf.TraceBytes}
}

// ProfileOf returns where a rank finds the memory for its profiles.
func (p *Memory) ProfileOf(local int) *ranklink.Page {
	if p == nil {
		return nil
	}
	at := int64(p.ranks)*(perf.PageBytes+perf.TraceBytes) + int64(local)*profile.Bytes
	return &ranklink.Page{FD: RankFD, Offset: at, Bytes: profile.Bytes}
}

// Read reads the used part of what a rank that has ended was given, as its head of so many bytes tells it. Nothing is mapped,
// so what nobody has written takes no memory.
func (p *Memory) Read(at *ranklink.Page, head int, used func([]byte) int) ([]byte, error) {
	if at == nil {
		return nil, nil
	}
	b := make([]byte, head)
	for {
		if _, err := unix.Pread(p.seg.FD(), b, at.Offset); err != nil {
			return nil, fmt.Errorf("read what a rank has recorded: %w", err)
		}
		n := min(used(b), at.Bytes)
		if n <= len(b) {
			return b[:n], nil
		}
		b = make([]byte, n)
	}
}

// Record is what a rank has recorded. Where it has not written its page, which programs of other MPI libraries never do, there is
// neither a snapshot nor an error.
type Record struct {
	Snapshot *perf.Snapshot
	Err      error
}

// Records reads the pages of this node's ranks, in their order. Any goroutine may call it; after close there are none.
func (p *Memory) Records() []Record {
	if p == nil {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	ranks := make([]Record, len(p.mem)/perf.PageBytes)
	for i := range ranks {
		at, err := perf.Open(p.mem[i*perf.PageBytes:][:perf.PageBytes])
		if err == nil {
			ranks[i].Snapshot, err = at.Snapshot()
		}
		if !errors.Is(err, perf.ErrEmpty) {
			ranks[i].Err = err
		}
	}
	return ranks
}

// Pack is the page of a rank of this node, to be sent to node 0; nil if nobody has written it, or there are no pages.
func (p *Memory) Pack(local int) ([]byte, error) {
	if p == nil {
		return nil, nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.mem == nil {
		return nil, nil
	}
	return packPage(p.mem[local*perf.PageBytes:][:perf.PageBytes])
}

// Pulses tells how the ranks of this node get on, in their order; those that cannot be read do nothing, for the reason err of the
// first. Any goroutine may call it, often; after close there are none.
func (p *Memory) Pulses() (ranks []perf.Pulse, err error) {
	if p == nil {
		return nil, nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	ranks = make([]perf.Pulse, len(p.mem)/perf.PageBytes)
	for i := range ranks {
		at, errOpen := perf.Open(p.mem[i*perf.PageBytes:][:perf.PageBytes])
		if errOpen == nil {
			ranks[i] = at.Pulse()
		} else if err == nil && !errors.Is(errOpen, perf.ErrEmpty) {
			err = errOpen
		}
	}
	return ranks, err
}

// Close gives the memory back; nil is no pages.
func (p *Memory) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.mem != nil {
		err = os.NewSyscallError("munmap", unix.Munmap(p.mem))
		p.mem = nil
	}
	return errors.Join(err, p.seg.Close())
}
