package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

const (
	// sampleInterval is the time between the two samples that show which ranks make progress.
	sampleInterval = 200 * time.Millisecond
	// stackTimeout bounds the wait for stacks.
	stackTimeout = time.Second
	// maxStacks is the maximum number of ranks whose stacks a view has.
	maxStacks = 4
	// maxGroups is the number of groups above which ranks that wait for different peers are one group.
	maxGroups = 12
)

// exitedText is the activity of ranks whose process has exited.
const exitedText = "process exited"

// View is the hang view: what the ranks of a job wait for.
type View struct {
	jobs.Job
	// Groups are the ranks by activity. Those that are most likely the cause of a hang come first.
	Groups []Group `json:"groups"`
	// WaitCycle are ranks that wait for each other: each for the next, and the last for the first. It is empty if there is no cycle.
	WaitCycle []int `json:"circle,omitempty"`
	// OnTheirWay is the number of messages and transfers between the ranks that are on their way, -1 if that is not known. If it is
	// 0, the ranks of WaitCycle are deadlocked; otherwise one of these may end a wait. Messages to ranks that have left may be
	// among them.
	OnTheirWay int64 `json:"messages_on_their_way"`
	// OtherTags are messages that are sent with another tag than the one that their receiver waits for.
	OtherTags []OtherTag `json:"other_tags,omitempty"`
	// Stacks are the stacks of ranks that wait for each other, and of one rank of each of the first groups.
	Stacks []Stack `json:"stacks,omitempty"`
}

// OtherTag is a message that a rank sends with a tag, while its receiver waits for a message from that rank with another tag.
type OtherTag struct {
	Sender      int `json:"sender"`
	Tag         int `json:"tag"`
	Receiver    int `json:"receiver"`
	ReceiverTag int `json:"receiver_tag"`
}

// Group is a set of ranks with the same activity.
type Group struct {
	Ranks []int `json:"ranks"`
	// Hosts are the names of their nodes, if the job has several.
	Hosts []string `json:"hosts,omitempty"`
	// What is their activity in words.
	What string `json:"what"`
	// From and To are the shortest and the longest time that they have been doing this.
	From float64 `json:"seconds_from"`
	To   float64 `json:"seconds_to"`
	// WaitsFor are the ranks outside of the group from which its ranks need a message for a blocking collective, as far as that is
	// known.
	WaitsFor []int `json:"waits_for,omitempty"`
	// WaitedFor are ranks that wait for these.
	WaitedFor []int `json:"waited_for_by,omitempty"`

	activity activity
}

// Stack has the goroutine stacks of a rank. Text is empty if the rank has not answered.
type Stack struct {
	Rank int    `json:"rank"`
	Text string `json:"text"`
}

// activity classifies what a rank does. Groups are sorted by it: the likely causes of a hang first.
type activity int

const (
	failed      activity = iota // stopped or exited, or its record cannot be read
	unreachable                 // its node does not answer
	outsideMPI                  // alive, and in no operation
	waiting                     // in an operation for both samples
	progressing                 // operations begin and end
	finished                    // finalized
)

// NewView takes two samples of the ranks and returns the view. It takes little more than a second, whatever the ranks do, and up
// to two seconds more if a node does not answer.
func NewView(ctx context.Context, s Source) (*View, error) {
	first, err := s.Ranks(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(sampleInterval):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	then, err := s.Ranks(ctx)
	if err != nil {
		return nil, err
	}
	v := &View{Job: s.Job(), Groups: groupRanks(first, then, sampleInterval), WaitCycle: waitCycle(first, then),
		OnTheirWay: onTheirWay(first, then), OtherTags: otherTags(first, then)}
	of := v.ranksForStacks(then)
	ctx, cancel := context.WithTimeout(ctx, stackTimeout)
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

// ranksForStacks returns the ranks whose stacks are most useful: those that wait for each other, then one of each other group
// that can answer, and only one of those groups that wait in the same operation. It returns no two ranks of a group.
func (v *View) ranksForStacks(ranks []jobs.Rank) (of []int) {
	listed := func(g Group) bool {
		return slices.ContainsFunc(g.Ranks, func(rank int) bool { return slices.Contains(of, rank) })
	}
	for _, rank := range v.WaitCycle {
		in := slices.IndexFunc(v.Groups, func(g Group) bool { return slices.Contains(g.Ranks, rank) })
		if in >= 0 && !listed(v.Groups[in]) && len(of) < maxStacks {
			of = append(of, rank)
		}
	}
	ops := map[string]bool{}
	for _, g := range v.Groups {
		if len(of) == maxStacks || g.activity == progressing && len(of) > 0 {
			break
		}
		i := slices.IndexFunc(ranks, func(r jobs.Rank) bool { return r.Rank == g.Ranks[0] })
		if i < 0 || ranks[i].State != jobs.Running || listed(g) {
			continue
		}
		if g.activity == waiting {
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

// groupRanks groups ranks by their activity in two samples.
func groupRanks(first, then []jobs.Rank, apart time.Duration) []Group {
	groups := groupBy(first, then, apart, waitText)
	if len(groups) > maxGroups { // for example a ring, in which each rank waits for another one
		groups = groupBy(first, then, apart, anyPeerText)
	}
	return groups
}

// groupBy groups ranks by activity. Waits are the same if name returns the same text for them.
func groupBy(first, then []jobs.Rank, apart time.Duration, name func(*jobs.Wait) string) []Group {
	before := map[int]*jobs.Rank{}
	for i := range first {
		before[first[i].Rank] = &first[i]
	}
	of := map[string]*Group{}
	var all []*Group
	for i := range then {
		r := &then[i]
		what, order, seconds := describe(r, before[r.Rank], apart, name)
		g := of[what]
		if g == nil {
			g = &Group{What: what, activity: order, From: seconds, To: seconds}
			of[what], all = g, append(all, g)
		}
		g.Ranks = append(g.Ranks, r.Rank)
		if r.Host != "" && !slices.Contains(g.Hosts, r.Host) {
			g.Hosts = append(g.Hosts, r.Host)
		}
		g.From, g.To = min(g.From, seconds), max(g.To, seconds)
	}
	slices.SortFunc(all, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(a.activity, b.activity), cmp.Compare(len(a.Ranks), len(b.Ranks)), cmp.Compare(a.Ranks[0], b.Ranks[0]))
	})
	groups := make([]Group, len(all))
	for i, g := range all {
		if g.WaitedFor = ranksWaitingFor(then, g.Ranks); g.activity == waiting {
			g.WaitsFor = ranksWaitedFor(then, g.Ranks)
		}
		groups[i] = *g
	}
	return groups
}

// ranksWaitedFor returns the ranks outside of the group that ranks of the group wait for in a blocking collective.
func ranksWaitedFor(ranks []jobs.Rank, group []int) (peers []int) {
	for i := range ranks {
		if !slices.Contains(group, ranks[i].Rank) {
			continue
		}
		for _, w := range ranks[i].Waits {
			if blocksIn(&w) && !slices.Contains(group, w.Peer) {
				peers = append(peers, w.Peer)
			}
		}
	}
	slices.Sort(peers)
	return slices.Compact(peers)
}

// ranksWaitingFor returns the other ranks that wait for one of the targets.
func ranksWaitingFor(ranks []jobs.Rank, targets []int) (waiters []int) {
	for i := range ranks {
		for _, w := range ranks[i].Waits {
			if !slices.Contains(waiters, ranks[i].Rank) && slices.Contains(targets, w.Peer) &&
				!slices.Contains(targets, ranks[i].Rank) {
				waiters = append(waiters, ranks[i].Rank)
			}
		}
	}
	return waiters
}

// describe returns the activity of a rank, in words and as a class, and for how many seconds it has lasted. The earlier sample
// before may be nil.
func describe(r, before *jobs.Rank, apart time.Duration, name func(*jobs.Wait) string) (what string, class activity,
	seconds float64) {
	switch r.State {
	case jobs.Stopped:
		return "stopped by a signal or a debugger", failed, r.Quiet
	case jobs.Ended:
		return exitedText, failed, r.Quiet
	case jobs.Unreachable:
		return "unknown: their node does not answer", unreachable, 0
	case jobs.Finalized:
		return "finalized, and " + processActivity(r, before, apart), finished, r.Quiet
	}
	if r.Error != "" {
		return "record cannot be read: " + r.Error, failed, r.Quiet
	}
	if r.State == jobs.Starting {
		return "no record (before Init, or without package mpi), " + processActivity(r, before, apart), outsideMPI, r.Quiet
	}
	if before != nil && r.Calls != before.Calls && r.Quiet < apart.Seconds() {
		return "making progress", progressing, 0
	}
	if len(r.Waits) == 0 {
		return processActivity(r, before, apart) + ", not in MPI", outsideMPI, r.Quiet
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

// processActivity describes the process state that the kernel reports.
func processActivity(r, before *jobs.Rank, apart time.Duration) string {
	if before != nil && r.CPU-before.CPU > apart.Seconds()/4 {
		return "computing"
	}
	switch {
	case r.Process == "D":
		return "waiting in the kernel" + kernelWait(r)
	case r.Process == "Z":
		return "exiting"
	case r.Process == "R":
		return "computing"
	}
	return "asleep" + kernelWait(r)
}

func kernelWait(r *jobs.Rank) string {
	if r.WaitsIn == "" {
		return ""
	}
	return " (" + r.WaitsIn + ")"
}

// waitText returns "in Recv from rank 3, tag 7", with the source position if that is known.
func waitText(w *jobs.Wait) string {
	if w.Where != "" {
		return callText(w) + ", at " + w.Where
	}
	return callText(w)
}

func callText(w *jobs.Wait) string {
	text := opText(w)
	if w.Collective {
		return text + commText(w) // the algorithm chooses the peer, which differs between ranks
	}
	if w.Peer >= 0 {
		text += fmt.Sprintf(" %s rank %d", preposition(w.Op), w.Peer)
	}
	if w.Tag >= 0 {
		text += fmt.Sprintf(", tag %d", w.Tag)
	}
	return text + commText(w)
}

// commText is the communicator, if it has a name.
func commText(w *jobs.Wait) string {
	if w.Comm == "" {
		return ""
	}
	return `, on "` + printable.Line(w.Comm) + `"`
}

// opText is the operation without peer and tag.
func opText(w *jobs.Wait) string {
	if w.Op == perf.NoOp.String() {
		return "within package mpi"
	}
	return "in " + w.Op
}

// anyPeerText is the text for ranks that wait for different peers.
func anyPeerText(w *jobs.Wait) string {
	if w.Collective || w.Peer < 0 {
		return waitText(w)
	}
	return opText(w) + " " + preposition(w.Op) + " different ranks" + commText(w)
}

// preposition returns the word between an operation and its peer.
func preposition(op string) string {
	switch op {
	case "Recv", "Irecv", "Mrecv", "Imrecv", "Probe", "Mprobe", "Get":
		return "from"
	case "Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend", "Put", "Accumulate":
		return "to"
	}
	return "with"
}

// stuck returns the wait of each rank that was in the same operation with one rank in both samples. Ranks with another goroutine
// in an operation are not among them: that goroutine could end the wait. In a blocking collective the rank is the one
// whose message is needed next.
func stuck(first, then []jobs.Rank) map[int]jobs.Wait {
	waits := map[int]jobs.Wait{}
	for i := range then {
		r := &then[i]
		if r.State != jobs.Running || len(r.Waits) != 1 || r.Waits[0].Peer < 0 {
			continue
		}
		if w := r.Waits[0]; !w.Collective || blocksIn(&w) {
			waits[r.Rank] = w
		}
	}
	for i := range first {
		if r := &first[i]; len(r.Waits) != 1 || r.Waits[0].Seq != waits[r.Rank].Seq {
			delete(waits, r.Rank)
		}
	}
	return waits
}

// blocksIn reports whether a rank waits in a blocking collective for a message of the rank that is its peer. Of an immediate or a
// persistent collective only the peer at the beginning of the wait is recorded: it goes on meanwhile. It has no tag, or, if a
// goroutine of the library makes it, a name that begins with I.
func blocksIn(w *jobs.Wait) bool {
	return w.Collective && w.Peer >= 0 && w.Tag >= 0 && !strings.HasPrefix(w.Op, "I")
}

// waitCycle returns ranks that wait for each other in a cycle, or nil.
func waitCycle(first, then []jobs.Rank) []int {
	next := stuck(first, then)
	for i := range then {
		var path []int
		at, waits := then[i].Rank, true
		for waits && !slices.Contains(path, at) {
			path = append(path, at)
			var w jobs.Wait
			w, waits = next[at]
			at = w.Peer
		}
		if waits {
			return path[slices.Index(path, at):]
		}
	}
	return nil
}

// onTheirWay returns how many messages and transfers are on their way between ranks, -1 if that is not known. It is 0 only if
// both samples are the same: the ranks are not read at the same time, so while messages move, sums that are equal prove nothing.
func onTheirWay(first, then []jobs.Rank) int64 {
	a, b := MessagesOf(first), MessagesOf(then)
	if n := int64(b.Sent - b.Arrived); b.Known() && (n > 0 || n == 0 && a == b) {
		return n
	}
	return -1
}

// otherTags returns the messages whose receivers wait for another tag, by sender. A rank has one of them at most.
func otherTags(first, then []jobs.Rank) (found []OtherTag) {
	waits := stuck(first, then)
	for _, sender := range slices.Sorted(maps.Keys(waits)) {
		out := waits[sender]
		in, ok := waits[out.Peer]
		if ok && preposition(out.Op) == "to" && preposition(in.Op) == "from" && in.Peer == sender && in.Comm == out.Comm &&
			out.Tag >= 0 && in.Tag >= 0 && in.Tag != out.Tag {
			found = append(found, OtherTag{sender, out.Tag, out.Peer, in.Tag})
		}
	}
	return found
}
