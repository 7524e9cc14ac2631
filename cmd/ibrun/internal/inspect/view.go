package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/perf"
)

const (
	// lookApart is how long a view looks to tell who is getting on.
	lookApart = 200 * time.Millisecond
	// stackPatience is how long it waits for stacks.
	stackPatience = time.Second
	// maxStacks is of how many ranks it shows stacks.
	maxStacks = 4
	// maxGroups is how many groups may wait for different ranks before these are all the same to it.
	maxGroups = 12
)

// View is what the ranks of a job wait for: the hang view.
type View struct {
	Job
	// Groups are the ranks by what they do, the odd ones first.
	Groups []Group `json:"groups"`
	// Circle are ranks of which each waits for the next, and the last for the first; empty if there is no such.
	Circle []int `json:"circle,omitempty"`
	// Stacks are of one rank each of the first groups, as far as they have answered.
	Stacks []Stack `json:"stacks,omitempty"`
}

// Group is ranks that do the same.
type Group struct {
	Ranks []int `json:"ranks"`
	// Hosts are the names of their nodes, of a job on several.
	Hosts []string `json:"hosts,omitempty"`
	// What is what they do, in words.
	What string `json:"what"`
	// From and To are for how long they have done that, the shortest and the longest.
	From float64 `json:"seconds_from"`
	To   float64 `json:"seconds_to"`
	// WaitedFor are ranks that wait for these.
	WaitedFor []int `json:"waited_for_by,omitempty"`

	order class
}

// Stack is what the goroutines of a rank do. Text is empty if it has not answered.
type Stack struct {
	Rank int    `json:"rank"`
	Text string `json:"text"`
}

// class is how odd it is to do something.
type class int

const (
	broken  class = iota // stopped, ended too early, not to be read
	unheard              // on a node that does not answer
	absent               // alive, and not waiting in any operation
	waiting              // in an operation
	getsOn               // not at all
	over                 // finalized
)

// Look makes the view. It takes somewhat more than a second at most, whatever the ranks do; a node that does not answer is waited
// for up to two more.
func Look(ctx context.Context, s Source) (*View, error) {
	first, err := s.Ranks(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(lookApart):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	then, err := s.Ranks(ctx)
	if err != nil {
		return nil, err
	}
	v := &View{Job: s.Job(), Groups: group(first, then, lookApart), Circle: circle(then)}
	of := v.odd(then)
	ctx, cancel := context.WithTimeout(ctx, stackPatience)
	defer cancel()
	texts, err := s.Stacks(ctx, of)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	for _, rank := range of {
		v.Stacks = append(v.Stacks, Stack{rank, texts[rank]})
	}
	return v, nil
}

// odd picks the ranks whose stacks tell most, of those that can answer: one of each group, and of the ranks that wait in the same
// operation only one.
func (v *View) odd(ranks []Rank) (of []int) {
	ops := map[string]bool{}
	for _, g := range v.Groups {
		if len(of) == maxStacks || g.order == getsOn && len(of) > 0 {
			break
		}
		i := slices.IndexFunc(ranks, func(r Rank) bool { return r.Rank == g.Ranks[0] })
		if i < 0 || ranks[i].State != Running {
			continue
		}
		if g.order == waiting {
			op := ranks[i].Waits[0].Op
			if ops[op] {
				continue
			}
			ops[op] = true
		}
		of = append(of, g.Ranks[0])
	}
	return of
}

// group sorts ranks that were looked at twice by what they do.
func group(first, then []Rank, apart time.Duration) []Group {
	groups := groupBy(first, then, apart, (*Wait).String)
	if len(groups) > maxGroups { // a ring, say, in which everybody waits for another one
		groups = groupBy(first, then, apart, (*Wait).anybody)
	}
	return groups
}

// groupBy tells waits apart by their names.
func groupBy(first, then []Rank, apart time.Duration, name func(*Wait) string) []Group {
	before := map[int]*Rank{}
	for i := range first {
		before[first[i].Rank] = &first[i]
	}
	of := map[string]*Group{}
	var all []*Group
	for i := range then {
		r := &then[i]
		what, order, seconds := r.does(before[r.Rank], apart, name)
		g := of[what]
		if g == nil {
			g = &Group{What: what, order: order, From: seconds, To: seconds}
			of[what], all = g, append(all, g)
		}
		g.Ranks = append(g.Ranks, r.Rank)
		if r.Host != "" && !slices.Contains(g.Hosts, r.Host) {
			g.Hosts = append(g.Hosts, r.Host)
		}
		g.From, g.To = min(g.From, seconds), max(g.To, seconds)
	}
	slices.SortFunc(all, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(len(a.Ranks), len(b.Ranks)), cmp.Compare(a.Ranks[0], b.Ranks[0]))
	})
	groups := make([]Group, len(all))
	for i, g := range all {
		g.WaitedFor = waitersFor(then, g.Ranks)
		groups[i] = *g
	}
	return groups
}

// waitersFor are the ranks that wait for one of those.
func waitersFor(ranks []Rank, those []int) (who []int) {
	for i := range ranks {
		for _, w := range ranks[i].Waits {
			if !slices.Contains(who, ranks[i].Rank) && slices.Contains(those, w.Peer) && w.Peer != ranks[i].Rank {
				who = append(who, ranks[i].Rank)
			}
		}
	}
	return who
}

// does says what a rank does, how odd that is, and for how many seconds it has been so. Before is nil or the rank as it was
// a little earlier.
func (r *Rank) does(before *Rank, apart time.Duration, name func(*Wait) string) (what string, order class, seconds float64) {
	switch r.State {
	case Stopped:
		return "stopped, by a signal or a debugger", broken, r.Quiet
	case Ended:
		return "no more: its process has ended", broken, r.Quiet
	case Unheard:
		return "not heard of: their node does not answer", unheard, 0
	case Finalized:
		return "finalized, and " + r.busy(before, apart), over, r.Quiet
	}
	if r.Error != "" {
		return "not to be read: " + r.Error, broken, r.Quiet
	}
	if r.State == Starting {
		return "without a record: not yet initialised, or a program without package mpi; " + r.busy(before, apart), absent, r.Quiet
	}
	if before != nil && r.Calls != before.Calls && r.Quiet < apart.Seconds() {
		return "getting on: operations begin and end", getsOn, 0
	}
	if len(r.Waits) == 0 {
		return r.busy(before, apart) + ", not in MPI", absent, r.Quiet
	}
	for i := range r.Waits {
		if i > 0 {
			what += ", and "
		}
		what += name(&r.Waits[i])
		seconds = max(seconds, r.Waits[i].Seconds)
	}
	return what, waiting, seconds
}

// busy says what the process does as the kernel sees it.
func (r *Rank) busy(before *Rank, apart time.Duration) string {
	if before != nil && r.CPU-before.CPU > apart.Seconds()/4 {
		return "computing"
	}
	switch {
	case r.Process == "D":
		return "waiting in the kernel" + r.within()
	case r.Process == "Z":
		return "dying"
	case r.Process == "R":
		return "computing"
	}
	return "asleep" + r.within()
}

func (r *Rank) within() string {
	if r.WaitsIn == "" {
		return ""
	}
	return " (" + r.WaitsIn + ")"
}

// String is "in Recv from rank 3, tag 7".
func (w *Wait) String() string {
	text := w.bare()
	if w.Collective {
		return text // with whom is the operation's own matter, and not the same for any two ranks
	}
	if w.Peer >= 0 {
		text += fmt.Sprintf(" %s rank %d", towards(w.Op), w.Peer)
	}
	if w.Tag >= 0 {
		text += fmt.Sprintf(", tag %d", w.Tag)
	}
	return text
}

// bare is without peer and tag.
func (w *Wait) bare() string {
	if w.Op == perf.NoOp.String() {
		return "within package mpi"
	}
	return "in " + w.Op
}

// anybody is String for ranks that wait for different ones.
func (w *Wait) anybody() string {
	if w.Collective || w.Peer < 0 {
		return w.String()
	}
	return w.bare() + " " + towards(w.Op) + " different ranks"
}

// towards is the word between an operation and its peer.
func towards(op string) string {
	switch op {
	case "Recv", "Irecv", "Mrecv", "Imrecv", "Probe", "Mprobe", "Get":
		return "from"
	case "Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend", "Put", "Accumulate":
		return "to"
	}
	return "with"
}

// circle finds ranks that wait for each other and therefore for ever, if nobody else of them helps: of those with one goroutine
// in an operation, each waits for a message of the next.
func circle(ranks []Rank) []int {
	next := map[int]int{}
	for i := range ranks {
		if r := &ranks[i]; r.State == Running && len(r.Waits) == 1 && r.Waits[0].Peer >= 0 && !r.Waits[0].Collective {
			next[r.Rank] = r.Waits[0].Peer
		}
	}
	for i := range ranks {
		var path []int
		at, waits := ranks[i].Rank, true
		for waits && !slices.Contains(path, at) {
			path = append(path, at)
			at, waits = next[at]
		}
		if waits {
			return path[slices.Index(path, at):]
		}
	}
	return nil
}
