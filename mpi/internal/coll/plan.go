package coll

// StepKind is the kind of a step.
type StepKind uint8

// The kinds of steps. A step begins when those before it have been done; sends and receives are done when they have been started.
const (
	StepSend    StepKind = iota + 1 // starts to send A to Peer
	StepRecv                        // starts to receive Dst from Peer
	StepWait                        // waits until all sends and receives before it have completed
	StepCopy                        // copies A to Dst
	StepCombine                     // combines A and B into Dst, with the operation of the plan
	StepCall                        // calls Func
	StepShared                      // advances Plan.SharedCalls[Peer] by [ShmImmediate.Advance], until that reports true
	StepDirect                      // does a long step of that call by [ShmImmediate.Copy], until that reports true
)

// Step is a step of a [Plan].
type Step struct {
	Kind      StepKind
	Peer      int
	Dst, A, B []byte
	Func      func()
}

// Plan is a Peer that records what a collective does, instead of doing it:
//
//	plan.Reset(rank, size, nil)
//	err := coll.Allreduce(&plan, dst, src, &op)
//	// plan.Steps are what this rank has to do
//
// This works because no algorithm depends on the contents of buffers. Its calls never fail. After the last step all messages must
// have completed, as after a StepWait. The zero Plan must be Reset first.
type Plan struct {
	// Steps are the steps so far.
	Steps []Step
	// Operation is that of all steps that combine; nil: there are none.
	Operation *Operation
	// SharedCalls are the collectives of the plan that shared memory does, one by each of Shared.
	SharedCalls [phases]ShmCall
	// Compared reports whether the ranks that share memory compare their calls. Root and Bytes are those of the collective by which
	// they do: the first one that shared memory does, or, on several nodes, that could use it. They are counted as in [ShmCall].
	Compared    bool
	Root, Bytes int

	immediates *ShmImmediates // nil: all collectives have steps with messages
	table      *Table
	levels     Levels
	rank, size int
	scratch    []byte
	used       int // bytes of scratch that Scratch has returned
}

// Reset removes all steps. Their memory is used again. t is for Table.
func (p *Plan) Reset(rank, size int, t *Table) {
	clear(p.Steps) // so that they keep no buffer reachable
	p.Steps, p.Operation = p.Steps[:0], nil
	p.immediates, p.levels, p.Compared = nil, Levels{}, false
	for i := range p.SharedCalls {
		if x := &p.SharedCalls[i]; x.used {
			*x = ShmCall{}
		}
	}
	p.rank, p.size, p.table, p.used = rank, size, t, 0
}

// SetNodes lets collectives use algorithms on two levels, with messages between nodes. It is called after Reset, at all ranks
// with the same nodes. The Plan must not be copied afterwards.
func (p *Plan) SetNodes(n *Nodes) {
	if n != nil {
		p.levels.Init(p, n)
	}
}

// SetShared lets collectives use shared memory: of all ranks, or, after SetNodes, of the ranks of each node. It is called at all
// ranks or at none. memory is as in [Levels], and is used after SetNodes only.
func (p *Plan) SetShared(s *ShmImmediates, memory Family) {
	p.immediates = s
	if p.levels.Nodes != nil {
		p.levels.Memory = memory
	}
}

// Shared returns what does SharedCalls[i]; nil: nothing does.
func (p *Plan) Shared(i int) *ShmImmediate { return p.immediates[i] }

// Levels returns what algorithms on two levels need; nil: there is one level.
func (p *Plan) Levels() *Levels {
	if p.levels.Nodes == nil {
		return nil
	}
	return &p.levels
}

// sharing returns the plan that records a collective of a Peer over shared memory, and the index of its call in SharedCalls; nil:
// the collective uses messages. The Peer is a Plan whose ranks all share memory, or the ranks of this node within a Plan.
func sharing(p Peer, x *ShmCall) (plan *Plan, phase int) {
	switch p := p.(type) {
	case *Plan:
		switch {
		case p.levels.Nodes == nil:
			plan = p
		case p.levels.Memory != 0:
			p.beginLevels(x)
		}
	case *subset:
		if q, ok := p.Peer.(*Plan); ok && p.node >= 0 && q.levels.Memory != 0 {
			plan, phase = q, phaseOf(x.Collective)
		}
	}
	if plan == nil || plan.immediates == nil || plan.immediates[phase] == nil || plan.SharedCalls[phase].used {
		return nil, 0
	}
	return plan, phase
}

// beginLevels is called with the arguments of a collective if the ranks are on several nodes and may use shared memory. Only the
// first collective of the plan does, and no operation of the program: others do not use the rules for it either.
func (p *Plan) beginLevels(x *ShmCall) {
	if p.Compared || x.op != nil && x.op.Foreign {
		p.levels.Memory = 0
	}
	p.compare(x)
}

// compare makes the ranks compare the plan by a collective, unless they do by another one.
func (p *Plan) compare(x *ShmCall) {
	if !p.Compared {
		p.Compared, p.Root, p.Bytes = true, x.Root, x.Bytes
	}
}

// shared records the steps of a call if it is done over shared memory, and reports whether it is. The result is the same at all
// ranks that share the memory.
//
// An operation of the program, or of long elements, uses messages. Before, unless the ranks are on several nodes, the call is
// announced over shared memory, so that a rank whose operation is a predefined one finds that the calls differ.
func shared(p Peer, x ShmCall) bool {
	plan, phase := sharing(p, &x)
	if plan == nil {
		return false
	}
	x.used = true
	f := plan.immediates[phase]
	switch f.Select(x.Collective, x.Bytes) {
	case SharedMemory:
	case DirectCopy:
		x.direct = true
	default:
		return false
	}
	plan.compare(&x)
	call := &plan.SharedCalls[phase]
	if x.op != nil && (x.op.Foreign || x.op.ElemSize > min(MaxSharedElement, f.room)) {
		*call = ShmCall{Collective: OfBarrier, Bytes: x.Bytes, Root: x.Root, used: true}
		plan.add(Step{Kind: StepShared, Peer: phase})
		return false
	}
	*call = x
	if x.direct {
		plan.addDirect(f, phase)
		return true
	}
	f.setPart(call)
	plan.add(Step{Kind: StepShared, Peer: phase})
	return true
}

// Do does a step that copies, combines or calls.
func (p *Plan) Do(s *Step) {
	switch s.Kind {
	case StepCopy:
		copy(s.Dst, s.A)
	case StepCombine:
		p.Operation.Kernel(s.Dst, s.A, s.B)
	case StepCall:
		s.Func()
	}
}

// Table returns the rules that Reset was given.
func (p *Plan) Table() *Table { return p.table }

// Rank returns the rank for which the plan is made.
func (p *Plan) Rank() int { return p.rank }

// Size returns the number of ranks.
func (p *Plan) Size() int { return p.size }

// Send records a send and a wait.
func (p *Plan) Send(dst int, b []byte) error {
	p.add(Step{Kind: StepSend, Peer: dst, A: b})
	return p.Waitall(nil)
}

// Recv records a receive and a wait.
func (p *Plan) Recv(src int, b []byte) error {
	p.add(Step{Kind: StepRecv, Peer: src, Dst: b})
	return p.Waitall(nil)
}

// Sendrecv records a receive, a send and a wait for both.
func (p *Plan) Sendrecv(dst int, s []byte, src int, r []byte) error {
	p.add(Step{Kind: StepRecv, Peer: src, Dst: r})
	return p.Send(dst, s)
}

// Isend records a send.
func (p *Plan) Isend(dst int, b []byte) (Handle, error) {
	p.add(Step{Kind: StepSend, Peer: dst, A: b})
	return Handle{}, nil
}

// Irecv records a receive.
func (p *Plan) Irecv(src int, b []byte) (Handle, error) {
	p.add(Step{Kind: StepRecv, Peer: src, Dst: b})
	return Handle{}, nil
}

// Waitall records a wait for all sends and receives so far.
func (p *Plan) Waitall([]Handle) error {
	p.add(Step{Kind: StepWait})
	return nil
}

// Cancel does nothing: no call of a Plan fails.
func (p *Plan) Cancel([]Handle) {}

// Scratch returns memory that is valid until Reset.
func (p *Plan) Scratch(n int) []byte {
	if len(p.scratch)-p.used < n {
		// Memory from earlier calls remains valid. The new buffer is large enough for the next plan.
		p.scratch, p.used = make([]byte, max(n, 2*len(p.scratch), 1024)), 0
	}
	b := p.scratch[p.used : p.used+n : p.used+n]
	p.used = min((p.used+n+15)&^15, len(p.scratch))
	return b
}

// Kept returns how many bytes of memory a plan without steps keeps for Scratch.
func (p *Plan) Kept() int { return len(p.scratch) }

// Drop makes a plan without steps keep no memory for Scratch.
func (p *Plan) Drop() { p.scratch = nil }

// Copy records a copy.
func (p *Plan) Copy(dst, src []byte) {
	if n := min(len(dst), len(src)); n != 0 && !inPlace(dst, src) {
		p.add(Step{Kind: StepCopy, Dst: dst[:n], A: src[:n]})
	}
}

// Combine records a step that combines.
func (p *Plan) Combine(op *Operation, dst, a, b []byte) {
	if len(dst) != 0 {
		p.Operation = op
		p.add(Step{Kind: StepCombine, Dst: dst, A: a, B: b})
	}
}

// Call records a call.
func (p *Plan) Call(f func()) { p.add(Step{Kind: StepCall, Func: f}) }

func (p *Plan) add(s Step) { p.Steps = append(p.Steps, s) }
