//go:build unix

package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/pmi"
)

// boards connects n boards to one server that believes half of them to be on another node.
func boards(t *testing.T, n int) []*kvs {
	t.Helper()
	server, err := pmi.NewServer(pmi.Job{Size: n, KVSName: "test", Mapping: fmt.Sprintf("(vector,(0,2,%d))", n/2)})
	if err != nil {
		t.Fatal(err)
	}
	list := make([]*kvs, n)
	for rank := range list {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		go server.Serve(rank, os.NewFile(uintptr(fds[0]), "server"))
		env := map[string]string{"PMI_FD": fmt.Sprint(fds[1]), "PMI_RANK": fmt.Sprint(rank), "PMI_SIZE": fmt.Sprint(n)}
		client, err := pmi.FromEnv(func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		list[rank] = &kvs{client: &pmiLauncher{client}}
	}
	return list
}

// TestKVS: after publish the address of every process can be read, even the longest one; it is nil for a process
// without one.
func TestKVS(t *testing.T) {
	all := boards(t, 4)
	want := make([]string, len(all))
	var publishing sync.WaitGroup
	for rank, b := range all {
		if rank != 2 {
			addr := make([]byte, 256)
			addr[0], addr[255] = byte(rank), 0xff
			want[rank] = string(addr)
		}
		publishing.Go(func() {
			if err := b.publish(t.Context(), []byte(want[rank])); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	publishing.Wait()
	var reading sync.WaitGroup
	for peer := range all {
		reading.Go(func() { // by several goroutines
			if got := string(all[1].address(peer)); got != want[peer] {
				t.Errorf("the address of %d is %x, want %x", peer, got, want[peer])
			}
		})
	}
	reading.Wait()
	nodes, err := all[3].nodes()
	if err != nil || fmt.Sprint(nodes) != "[0 0 1 1]" {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	if err := all[0].finalize(); err != nil {
		t.Error(err)
	}
	if err := all[0].finalize(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("finalized twice: %v", err)
	}
}

// TestTogether: processes that the launcher has put on one node, but which cannot meet, are on different nodes.
func TestTogether(t *testing.T) {
	all := boards(t, 8) // 4 of them on each node
	var done sync.WaitGroup
	for rank, b := range all {
		done.Go(func() {
			text := "common"
			if rank == 1 || rank == 2 {
				text = "container"
			}
			if err := errors.Join(b.client.Put(placeKey, []byte(text)), b.client.Barrier(t.Context())); err != nil {
				t.Error(err)
				return
			}
			ranks, err := b.client.NodeRanks()
			if err == nil {
				b.local, err = together(b.client, ranks)
			}
			nodes, errNodes := b.nodes()
			got := fmt.Sprint(b.local, nodes[rank])
			want := map[int]string{0: "[0 3] 8", 3: "[0 3] 8", 1: "[1 2] 9", 2: "[1 2] 9"}[rank]
			if want == "" {
				want = "[4 5 6 7] 1"
			}
			if err != nil || errNodes != nil || got != want {
				t.Errorf("rank %d: %s instead of %s, %v, %v", rank, got, want, err, errNodes)
			}
		})
	}
	done.Wait()
}

// TestKVSTimeout: the context ends the wait for processes that do not arrive.
func TestKVSTimeout(t *testing.T) {
	b := boards(t, 2)[0]
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more patience")
	cancel(why)
	if err := b.publish(ctx, []byte("address")); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
