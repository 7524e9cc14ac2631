package bootstrap

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// kvs is the launcher's key-value space (KVS), in which processes exchange their addresses. One barrier makes all
// addresses visible. Each is looked up when it is needed, so a process that communicates with few others looks up
// few. Any goroutine may use it.
type kvs struct {
	info  *ranklink.RankInfo // nil under another launcher than ibrun
	own   nodeInfo           // the result of nodeInfoOf
	local []int              // the processes that share memory with this one; nil: not known

	mu     sync.Mutex
	client launcher
}

// addressKey is the key under which each process puts its address.
const addressKey = "ibrun-addr"

// publish stores this process's address, and blocks until all processes have stored theirs.
func (b *kvs) publish(ctx context.Context, addr []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client.Size() == 1 {
		return nil
	}
	if len(addr) > 0 {
		if err := b.client.Put(addressKey, addr); err != nil {
			return fmt.Errorf("publish this process's address: %w", err)
		}
	}
	if err := b.client.Barrier(ctx); err != nil {
		return fmt.Errorf("wait for the addresses of the other processes: %w", err)
	}
	return nil
}

func (b *kvs) address(peer int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	addr, err := b.client.Get(peer, addressKey)
	if err != nil {
		return nil // the process has no address, or the launcher has ended
	}
	return addr
}

func (b *kvs) nodes() ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client.Size() == 1 {
		return []int{0}, nil
	}
	nodes, err := b.client.Mapping()
	if err != nil || len(b.local) == 0 {
		return nodes, err
	}
	// Processes of one node that cannot meet are on different nodes for the program.
	for rank, node := range nodes {
		if node == nodes[b.client.Rank()] && !slices.Contains(b.local, rank) {
			for _, rank := range b.local {
				nodes[rank] = len(nodes) + b.local[0]
			}
			break
		}
	}
	return nodes, nil
}

func (b *kvs) abort(code int, why string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.client.Abort(code, why)
}

func (b *kvs) finalize() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.client.Finalize()
}
