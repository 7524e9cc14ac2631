package explain

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/auto"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
)

// counts are the successful calls of endpoints that moved payload.
type counts struct{ sends, reads, writes atomic.Int32 }

// counted is a domain whose endpoints count.
type counted struct {
	fabric.Domain
	c *counts
}

// paired is one that shares words, too.
type paired struct {
	counted
	fabric.CooperativeCopier
}

func (d counted) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	return endpoint{ep, d.c}, err
}

type endpoint struct {
	fabric.Endpoint
	c *counts
}

func (e endpoint) Send(header, payload []byte) error {
	err := e.Endpoint.Send(header, payload)
	if err == nil && len(payload) > 0 {
		e.c.sends.Add(1)
	}
	return err
}

func (e endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	done, err := e.Endpoint.Read(dst, local, src, token)
	if err == nil {
		e.c.reads.Add(1)
	}
	return done, err
}

func (e endpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	done, err := e.Endpoint.Write(src, local, dst, token)
	if err == nil {
		e.c.writes.Add(1)
	}
	return done, err
}

// pair makes two engines that meet over one transport, as the ranks of a job would.
func pair(t *testing.T, transport string, c *counts) (es [2]*proto.Engine) {
	var n auto.Node
	if err := n.FromEnv(os.Getenv); err != nil {
		t.Fatal(err)
	}
	n.Transports = []string{transport}
	rand.Read(n.Key[:])
	var ds [2]fabric.Domain
	var beds [2]proto.Waker
	var opening sync.WaitGroup
	for i := range es {
		beds[i] = proto.NewWaker()
		at := n
		at.Local = []int{i}
		if transport == "shm" {
			at.Local = []int{0, 1}
		}
		opening.Go(func() {
			d, err := auto.Open(context.Background(), &fabric.Config{Self: i, Size: 2, Wake: beds[i].Wake}, at)
			if err != nil {
				t.Error(err)
				return
			}
			ds[i] = counted{d, c}
			if p, ok := d.(fabric.CooperativeCopier); ok {
				ds[i] = paired{counted{d, c}, p}
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i := range es {
		var err error
		es[i], err = proto.New(proto.Config{Domain: ds[i], Self: i, Size: 2, Waker: beds[i], Oversubscribed: true,
			Address: func(peer int) []byte { return ds[peer].Addr() }})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, e := range es {
			e.Processes().AllowFinalize()
		}
		for _, e := range es {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return es
}

// trip sends one message and counts what moved it.
func trip(t *testing.T, es [2]*proto.Engine, c *counts, n int) {
	t.Helper()
	c.sends.Store(0)
	c.reads.Store(0)
	c.writes.Store(0)
	sent := make(chan error)
	go func() {
		sent <- es[0].Send(proto.Route{Context: 5, Peer: 1, Match: proto.Match{Rank: 0, Tag: 1}}, make([]byte, n), proto.Standard)
	}()
	st, err := es[1].Recv(proto.Route{Context: 5, Match: proto.Match{Rank: 0, Tag: 1}}, make([]byte, n))
	if errSend := <-sent; err != nil || errSend != nil || st.Bytes != n {
		t.Fatalf("%d bytes: %d came: %v, %v", n, st.Bytes, err, errSend)
	}
}

// agree sends messages around every length at which the explanation of a transport changes, and compares.
func agree(t *testing.T, transport string) {
	var c counts
	es := pair(t, transport, &c)
	trip(t, es, &c, 100000) // connects both
	paths, err := Paths(transport, os.Getenv, nil)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, w := range paths {
		for _, l := range w.Limits {
			for off := -120; off <= 1; off++ { // headers are at most 72 bytes
				if n := l.Bytes + off; n > 0 && (off > -3 || off%8 == 0) {
					sizes = append(sizes, n)
				}
			}
		}
	}
	sizes = append(sizes, 1, 100, 5000, 20000, 1<<20)
	if paths, err = Paths(transport, os.Getenv, sizes); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, n := range sizes {
		if paths[0].Messages[i].Measured { // the first message between two processes is as explained
			es = pair(t, transport, &c)
			trip(t, es, &c, 1)
		}
		trip(t, es, &c, n)
		var wants []string
		ok := false
		for _, w := range paths {
			m := w.Messages[i]
			wants = append(wants, fmt.Sprintf("%s of %d pieces", m.Protocol, m.Pieces))
			if m.matches(&c) {
				ok, seen[m.Protocol] = true, true
			}
		}
		if !ok {
			t.Errorf("%d bytes went in %d sends, %d reads and %d writes; explained: %q", n, c.sends.Load(), c.reads.Load(),
				c.writes.Load(), wants)
		}
	}
	if len(seen) < 2 {
		t.Errorf("only %v were seen", seen)
	}
}

func (m Message) matches(c *counts) bool {
	sends, reads, writes := int(c.sends.Load()), int(c.reads.Load()), int(c.writes.Load())
	switch m.Protocol {
	case "eager", "eager inline", "parts", "copies":
		return sends == m.Pieces && reads+writes == 0
	case "shared":
		return sends == 0 && reads+writes == m.Pieces
	}
	return sends == 0 && reads == 1 && writes == 0
}

func TestSharedMemory(t *testing.T) { agree(t, "shm") }

func TestTCP(t *testing.T) {
	t.Setenv("IBRUN_TCP_INTERFACES", "lo")
	agree(t, "tcp")
}

// TestLists: an invalid list is an error, and a list that names a transport twice explains it once.
func TestLists(t *testing.T) {
	if _, err := Paths("tpc", os.Getenv, nil); !errors.Is(err, auto.ErrTransport) {
		t.Errorf("%v", err)
	}
	if paths, err := Paths("tcp,tcp", os.Getenv, nil); err != nil || len(paths) != 1 {
		t.Errorf("%+v, %v", paths, err)
	}
}

// TestTableOfImmediates: a table that EncodeTable writes decides about immediate collectives, too.
func TestTableOfImmediates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.json")
	table := EncodeTable([]Rule{
		{Collective: "ibcast", Algorithm: "direct copy", MaxBytes: 100},
		{Collective: "ibcast", Algorithm: MessagesName, MinRanks: 4},
		{Collective: "bcast", Algorithm: "binomial", MaxRanks: 3},
	})
	if err := os.WriteFile(path, table, 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string {
		if name == TableVariable {
			return path
		}
		return ""
	}
	all, err := Collectives(getenv, []string{"bcast"}, []int{100, 101}, []int{3, 4})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"binomial, direct copy", "binomial, shared memory", "shared memory, direct copy", "shared memory, binomial",
	} {
		if got := all[i].OnNode.Name + ", " + all[i].Immediate.Name; got != want {
			t.Errorf("bcast of %d bytes between %d ranks: %s, want %s", all[i].Bytes, all[i].Ranks, got, want)
		}
	}
	for _, name := range Measured(false) {
		if names := Algorithms(name, 4, false); len(names) < 2 {
			t.Errorf("%s has the algorithms %q", name, names)
		}
	}
}

// TestOverrides: settings of the environment take effect, and are given as the source.
func TestOverrides(t *testing.T) {
	t.Setenv("IBRUN_TCP_INTERFACES", "lo")
	t.Setenv("IBRUN_SHM_STREAM", "50000")
	t.Setenv("IBRUN_TCP_EAGER", "3000")
	for transport, want := range map[string]Limit{
		"shm": {"stream", 50000, "IBRUN_SHM_STREAM", "IBRUN_SHM_STREAM", "ShmStream"},
		"tcp": {"eager", 3000, "IBRUN_TCP_EAGER", "IBRUN_TCP_EAGER", "TCPEager"},
	} {
		agree(t, transport)
		paths, err := Paths(transport, os.Getenv, nil)
		if err != nil || paths[0].Limits[1] != want {
			t.Errorf("%+v, %v", paths, err)
		}
	}
}

// TestForcedProtocol: IBRUN_PROTOCOL replaces the protocol of all messages that it can carry.
func TestForcedProtocol(t *testing.T) {
	for value, want := range map[string][]string{
		"copied": {"copies", "copies"}, "read": {"read", "read"}, "shared": {"read", "shared"}, "eager": {"eager", "parts"},
		"random:1": {"eager", "random"},
	} {
		t.Setenv("IBRUN_PROTOCOL", value)
		paths, err := Paths("shm", os.Getenv, []int{8, 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			for i, m := range p.Messages {
				named := strings.Contains(m.Why, "IBRUN_PROTOCOL")
				if m.Protocol != want[i] || named == (value == "random:1" && i == 0) {
					t.Errorf("%s, %s: %+v, want %s", value, p.Between, m, want[i])
				}
			}
		}
	}
	possible, err := Protocols("shm", os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	for bytes, want := range map[int]string{8: "eager read copied", 1 << 20: "parts read shared copied"} {
		if got := strings.Join(possible(bytes), " "); got != want {
			t.Errorf("%d bytes: %s, want %s", bytes, got, want)
		}
	}
	t.Setenv("IBRUN_PROTOCOL", "write")
	if _, err := Paths("shm", os.Getenv, nil); err == nil || !strings.Contains(err.Error(), "want auto, eager") {
		t.Errorf("%v", err)
	}
}

// TestLongerThanRegion: a message that is longer than what the RDMA device registers is sent in parts.
func TestLongerThanRegion(t *testing.T) {
	set, err := rdma.Settings{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	const region = 1 << 20
	p := auto.Path{Transport: "rdma", Caps: set.Caps(), Region: region, Piece: 1 << 16}
	thresholds, err := protocols.ThresholdsOf(p.Caps)
	if err != nil {
		t.Fatal(err)
	}
	if m := message(p, thresholds, region, protocols.RendezvousRead); m.Protocol != "rdma read" || m.Pieces != region/p.Piece {
		t.Errorf("%+v", m)
	}
	want := thresholds.FragmentCount(protocols.RendezvousCopy, region+1)
	if m := message(p, thresholds, region+1, protocols.RendezvousRead); m.Protocol != "copies" || m.Pieces != want || want < 2 ||
		!strings.Contains(m.Why, "registers at most 1048576 bytes") {
		t.Errorf("%+v, want %d pieces", m, want)
	}
}
