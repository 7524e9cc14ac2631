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
	StepShared                      // does Plan.SharedCall
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
	// Shared does one collective of the plan, if it is short; nil: all have steps with messages. It is set after Reset, at all
	// ranks or at none.
	Shared *ShmImmediate
	// SharedCall is that collective.
	SharedCall ShmCall

	table      *Table
	rank, size int
	scratch    []byte
	used       int // bytes of scratch that Scratch has returned
}

// Reset removes all steps. Their memory is used again. t is for Table.
func (p *Plan) Reset(rank, size int, t *Table) {
	clear(p.Steps) // so that they keep no buffer reachable
	p.Steps, p.Operation = p.Steps[:0], nil
	p.Shared, p.SharedCall = nil, ShmCall{}
	p.rank, p.size, p.table, p.used = rank, size, t, 0
}

// shared returns the call of a collective of some bytes if it is done over shared memory, and records the step. Otherwise, and
// for other Peers, it returns nil. The caller sets the arguments. The result is the same at all ranks.
func shared(p Peer, c Collective, bytes int) *ShmCall {
	plan, ok := p.(*Plan)
	if !ok || plan.Shared == nil || plan.SharedCall.used || bytes > MaxImmediateBytes(c, plan.size) {
		return nil
	}
	plan.add(Step{Kind: StepShared})
	plan.SharedCall = ShmCall{Collective: c, Bytes: bytes, used: true}
	return &plan.SharedCall
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
