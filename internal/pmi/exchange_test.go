package pmi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// country is a job with a server on each node and the exchange between them. Parcels travel as they do between
// machines: written down, in order.
type country struct {
	servers []*Server
	nodes   []int // by rank

	mu      sync.Mutex
	up, all int // parcels so far, and both ways
}

func (c *country) parcels() (up, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up, c.all
}

func newCountry(t testing.TB, mapping string, size int) *country {
	t.Helper()
	x, err := NewExchange(mapping, size)
	if err != nil {
		t.Fatal(err)
	}
	c := &country{nodes: x.nodes}
	for node := range x.count {
		c.servers = append(c.servers, newTestServer(t, Job{Size: size, Mapping: mapping, Node: node, Up: func(p *Parcel) {
			text, err := json.Marshal(p)
			if err != nil {
				t.Error(err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.up++
			c.all++
			c.carry(t, x, node, text)
		}}))
	}
	return c
}

func (c *country) carry(t testing.TB, x *Exchange, node int, text []byte) {
	p := new(Parcel)
	if err := json.Unmarshal(text, p); err != nil {
		t.Error(err)
	}
	list, err := x.Take(node, p)
	if err != nil {
		t.Error(err)
	}
	for _, d := range list {
		for _, to := range d.Nodes {
			c.all++
			if err := c.servers[to].Deliver(&d.Parcel); err != nil {
				t.Error(err)
			}
		}
	}
}

func (c *country) rank(t testing.TB, n int) *rank { return serve(t, c.servers[c.nodes[n]], n) }

// meet sends a line for each rank, and wants all of them to hear the answer to a barrier.
func meet(ranks []*rank, line, answer string) {
	for _, r := range ranks {
		r.send(line)
	}
	for _, r := range ranks {
		r.hear(answer)
	}
}

// Ranks on all nodes see what was put before a barrier, for one parcel each way and node.
func TestNodesMeet(t *testing.T) {
	const size, nodes = 8, 3
	c := newCountry(t, "(vector,(0,2,3),(2,1,2))", size)
	var ranks []*rank
	for n := range size {
		ranks = append(ranks, c.rank(t, n))
	}
	for round := range 3 {
		for n, r := range ranks {
			r.send(fmt.Sprintf("cmd=put kvsname=job1 key=k%d-%d value=v%d\n", round, n, n))
			r.hear("cmd=put_result rc=0\n")
		}
		if round == 0 { // of other nodes only what was put before a barrier is seen
			ranks[0].send("cmd=get kvsname=job1 key=k0-7\n")
			ranks[0].hear("cmd=get_result rc=-1 msg=key_not_found\n")
		}
		beforeUp, before := c.parcels()
		meet(ranks, "cmd=barrier_in\n", "cmd=barrier_out rc=0 tag=0\n")
		if up, all := c.parcels(); up-beforeUp != nodes || all-before != 2*nodes {
			t.Errorf("a barrier took %d parcels up and %d in all", up-beforeUp, all-before)
		}
		for _, r := range ranks {
			for n := range size {
				r.send(fmt.Sprintf("cmd=get kvsname=job1 key=k%d-%d\n", round, n))
				r.hear(fmt.Sprintf("cmd=get_result rc=0 value=v%d\n", n))
			}
		}
	}
}

// A barrier of ranks on one node concerns nobody else; one of ranks on some nodes brings them what they lack, and those
// that were not there hear of it at the next.
func TestGroupsOnNodes(t *testing.T) {
	c := newCountry(t, "(vector,(0,3,2))", 6)
	var ranks []*rank
	for n := range 6 {
		ranks = append(ranks, c.rank(t, n))
	}
	meet(ranks[2:4], "cmd=barrier_in group=NODE:1\n", "cmd=barrier_out rc=0 tag=1\n")
	meet(ranks[2:4], "cmd=barrier_in group=3,2\n", "cmd=barrier_out rc=0 tag=0\n")
	if _, all := c.parcels(); all != 0 {
		t.Errorf("barriers of one node took %d parcels", all)
	}
	ranks[4].send("cmd=put key=far value=away\n")
	ranks[4].hear("cmd=put_result rc=0\n")
	meet([]*rank{ranks[0], ranks[4]}, "cmd=barrier_in group=4,0:7\n", "cmd=barrier_out rc=0 tag=7\n")
	get := func(n int, answer string) {
		ranks[n].send("cmd=get key=far\n")
		ranks[n].hear("cmd=get_result " + answer + "\n")
	}
	get(1, "rc=0 value=away")
	get(2, "rc=-1 msg=key_not_found")
	meet(ranks, "cmd=barrier_in group=WORLD:2\n", "cmd=barrier_out rc=0 tag=2\n")
	get(2, "rc=0 value=away")
}

// Names are known on all nodes at once.
func TestNamesOnNodes(t *testing.T) {
	c := newCountry(t, "(vector,(0,2,1))", 2)
	a, b := c.rank(t, 0), c.rank(t, 1)
	a.send("cmd=publish_name service=s port=p1\n")
	a.hear("cmd=publish_result rc=0 info=ok\n")
	b.send("cmd=publish_name service=s port=p2\n")
	b.hear("cmd=publish_result rc=-1 msg=name_is_taken_or_there_is_no_room_for_it info=fail\n")
	b.send("cmd=lookup_name service=s\n")
	b.hear("cmd=lookup_result rc=0 info=ok port=p1\n")
	b.send("cmd=unpublish_name service=s\n")
	b.hear("cmd=unpublish_result rc=0 info=ok\n")
	a.send("cmd=lookup_name service=s\n")
	a.hear("cmd=lookup_result rc=-1 msg=name_not_found info=fail\n")
}

// More than fits a parcel goes in several, and arrives.
func TestMuchToTell(t *testing.T) {
	const puts = 1000
	c := newCountry(t, "(vector,(0,2,1))", 2)
	a, b := c.rank(t, 0), c.rank(t, 1)
	value := strings.Repeat("v", 900)
	for i := range puts {
		a.send(fmt.Sprintf("cmd=put key=k%d value=%s\n", i, value))
		a.hear("cmd=put_result rc=0\n")
	}
	meet([]*rank{a, b}, "cmd=barrier_in\n", "cmd=barrier_out rc=0 tag=0\n")
	if up, _ := c.parcels(); up < 3 {
		t.Errorf("%d parcels for %d bytes", up, puts*len(value))
	}
	for i := range puts {
		b.send(fmt.Sprintf("cmd=get key=k%d\n", i))
		b.hear("cmd=get_result rc=0 value=" + value + "\n")
	}
}

// Two barriers that are complete at once do not overtake what was put.
func TestBarriersAtOnce(t *testing.T) {
	for round := range 50 {
		c := newCountry(t, "(vector,(0,2,2))", 4)
		var ranks []*rank
		for n := range 4 {
			ranks = append(ranks, c.rank(t, n))
		}
		var all sync.WaitGroup
		for _, n := range rand.New(rand.NewPCG(uint64(round), 0)).Perm(4) {
			all.Go(func() {
				r := ranks[n]
				r.send(fmt.Sprintf("cmd=put key=k%d value=v\n", n))
				r.hear("cmd=put_result rc=0\n")
				r.send(fmt.Sprintf("cmd=barrier_in group=%d,%d\n", n%2, n%2+2))
				r.hear("cmd=barrier_out rc=0 tag=0\n")
				r.send(fmt.Sprintf("cmd=get key=k%d\n", (n+2)%4))
				r.hear("cmd=get_result rc=0 value=v\n")
			})
		}
		all.Wait()
	}
}

// A rank that goes while it waits disturbs neither its server nor the others.
func TestRankLeavesNodes(t *testing.T) {
	c := newCountry(t, "(vector,(0,2,2))", 4)
	gone, stays := c.rank(t, 0), c.rank(t, 1)
	gone.send("cmd=barrier_in\n")
	gone.conn.Close()
	<-gone.done
	stays.send("cmd=put key=a value=b\n")
	stays.hear("cmd=put_result rc=0\n")
	stays.send("cmd=barrier_in group=NODE\n")
	stays.conn.Close()
	<-stays.done
	if _, all := c.parcels(); all != 0 {
		t.Errorf("%d parcels although no barrier was complete", all)
	}
}

// What no server says is an error and no crash.
func TestHostileParcels(t *testing.T) {
	const mapping = "(vector,(0,2,2))"
	long := strings.Repeat("x", valueMax)
	for name, c := range map[string]struct {
		node  int
		group string
		put   *Put
		name  *Name
	}{
		"no such node":          {node: 2},
		"a put of another node": {put: &Put{Rank: 2, Key: []byte("k")}},
		"a put of nobody":       {put: &Put{Rank: -1, Key: []byte("k")}},
		"a put too long":        {put: &Put{Value: []byte(long)}},
		"a key too long":        {put: &Put{Key: []byte(long)}},
		"another's name":        {name: &Name{Rank: 3}},
		"no rank's name":        {name: &Name{Rank: 99}},
		"no such group":         {group: "1,9:0"},
		"not as servers write":  {group: "3,1"},
		"a group elsewhere":     {group: "2,3:0"},
		"a group of no node":    {group: "NODE:0"},
	} {
		x, err := NewExchange(mapping, 4)
		if err != nil {
			t.Fatal(err)
		}
		p := &Parcel{Group: c.group, Name: c.name}
		if c.put != nil {
			p.Puts = []Put{*c.put}
		}
		if _, err := x.Take(c.node, p); !errors.Is(err, errParcel) {
			t.Errorf("%s: %v", name, err)
		}
	}
	x, err := NewExchange(mapping, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Take(0, &Parcel{}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Take(0, &Parcel{}); !errors.Is(err, errParcel) {
		t.Errorf("at a barrier twice: %v", err)
	}
	for i := 0; err == nil; i++ {
		if i > 4*share {
			t.Fatal("there is no bound to what is kept")
		}
		_, err = x.Take(0, &Parcel{More: true, Puts: slices.Repeat([]Put{{Value: make([]byte, 1000)}}, 100)})
	}
	s := newTestServer(t, Job{Size: 4, Mapping: mapping, Up: func(*Parcel) {}})
	for _, p := range []*Parcel{{}, {Group: "WORLD:1"}, {Puts: []Put{{Rank: 9}}}} {
		if err := s.Deliver(p); !errors.Is(err, errParcel) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := newTestServer(t, Job{Size: 4}).Deliver(&Parcel{}); !errors.Is(err, errParcel) {
		t.Errorf("a server of all ranks: %v", err)
	}
}

// An exchange does not keep what all nodes have heard of.
func TestExchangeForgets(t *testing.T) {
	x, err := NewExchange("(vector,(0,2,1))", 2)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		for node := range 2 {
			if _, err := x.Take(node, &Parcel{Puts: []Put{{Rank: node, Key: []byte("k"), Value: make([]byte, 1000)}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(x.log) != 0 || x.bytes != 0 || len(x.meet) != 0 {
		t.Errorf("%d puts of %d bytes and %d barriers are kept", len(x.log), x.bytes, len(x.meet))
	}
}

func FuzzExchange(f *testing.F) {
	f.Add([]byte(`{"Group":"WORLD:3","Puts":[{"Rank":1,"Key":"a2V5","Value":"dg=="}]}`), 0)
	f.Add([]byte(`{"Group":"0,2:7"}`), 1)
	f.Add([]byte(`{"Name":{"Rank":2,"Cmd":"publish_name","Service":"cw==","Port":"cA=="}}`), 1)
	f.Add([]byte(`{"More":true}`), 3)
	f.Fuzz(func(t *testing.T, text []byte, node int) {
		var p Parcel
		if json.Unmarshal(text, &p) != nil {
			return
		}
		x, err := NewExchange("(vector,(0,2,2))", 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{node, 0, 1} {
			list, err := x.Take(n, &p)
			for _, d := range list {
				if err != nil || slices.Max(d.Nodes) > 1 || slices.Min(d.Nodes) < 0 {
					t.Errorf("%+v, %v", d, err)
				}
			}
		}
		s := newTestServer(t, Job{Size: 4, Mapping: "(vector,(0,2,2))", Up: func(*Parcel) {}})
		_ = s.Deliver(&p) // most are refused; none may crash it
	})
}
