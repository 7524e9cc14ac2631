package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
	"github.com/ibrun/ibrun/perf"
)

// onTwoLevels are collectives that ranks on several nodes make on two levels. Rank 1 is not the first of its node.
var onTwoLevels = map[string]func(c *mpi.Comm, n int) error{
	"Barrier":   func(c *mpi.Comm, _ int) error { return c.Barrier() },
	"Bcast":     func(c *mpi.Comm, n int) error { return mpi.Bcast(c, make([]int, n), 1) },
	"Reduce":    func(c *mpi.Comm, n int) error { return mpi.Reduce(c, make([]int, n), make([]int, n), mpi.Sum, 1) },
	"Allreduce": func(c *mpi.Comm, n int) error { return mpi.Allreduce(c, make([]int, n), make([]int, n), mpi.Sum) },
	"Gather":    func(c *mpi.Comm, n int) error { return mpi.Gather(c, make([]int, n*c.Size()), make([]int, n), 1) },
	"Allgather": func(c *mpi.Comm, n int) error { return mpi.Allgather(c, make([]int, n*c.Size()), make([]int, n)) },

	"Ibarrier": func(c *mpi.Comm, _ int) error { return wait(c.Ibarrier()) },
	"Ibcast":   func(c *mpi.Comm, n int) error { return wait(mpi.Ibcast(c, make([]int, n), 1)) },
	"Ireduce": func(c *mpi.Comm, n int) error {
		return wait(mpi.Ireduce(c, make([]int, n), make([]int, n), mpi.Sum, 1))
	},
	"Iallreduce": func(c *mpi.Comm, n int) error {
		return wait(mpi.Iallreduce(c, make([]int, n), make([]int, n), mpi.Sum))
	},
	"Igather": func(c *mpi.Comm, n int) error {
		return wait(mpi.Igather(c, make([]int, n*c.Size()), make([]int, n), 1))
	},
	"Iallgather": func(c *mpi.Comm, n int) error {
		return wait(mpi.Iallgather(c, make([]int, n*c.Size()), make([]int, n)))
	},
}

// wait waits for a request.
func wait(r mpi.Request, err error) error {
	if err == nil {
		_, err = r.Wait()
	}
	return err
}

// sentMessages returns the number of messages that this rank has sent, without those of the protocol.
func sentMessages(p *mpi.Process) (sent uint64, err error) {
	s, err := p.Recorded()
	if err != nil {
		return 0, err
	}
	for _, t := range s.Traffic {
		if t.Direction == perf.Out {
			sent += t.Messages
		}
	}
	return sent, nil
}

// TestTwoLevelMessages: ranks that share memory with the leader of their node send no message, nor does the leader of a node to
// ranks of its own node; and without shared memory they do.
func TestTwoLevelMessages(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	for name, call := range onTwoLevels {
		for _, share := range []bool{true, false} {
			o := mpitest.Options{Machine: pairedNodes, Unchecked: true, Wrap: func(t fabric.Transport) fabric.Transport {
				return hook.Wrap(t, hook.Options{Share: share})
			}}
			t.Run(fmt.Sprintf("%s, shared %v", name, share), func(t *testing.T) {
				mpitest.RunWith(t, 4, o, func(p *mpi.Process) error {
					w := p.World()
					err := errors.Join(w.Barrier(), call(w, 8)) // the first one shares memory
					before, err1 := sentMessages(p)
					for range 10 {
						err = errors.Join(err, call(w, 8))
					}
					sent, err2 := sentMessages(p)
					sent, err = sent-before, errors.Join(err, err1, err2)
					// The root in these collectives is rank 1, so it leads its node, or rank 0 does.
					blocking := strings.ToLower(strings.TrimPrefix(name, "I"))
					leads := w.Rank() == 2 || w.Rank() == 1 && (blocking == "bcast" || blocking == "reduce" || blocking == "gather") ||
						w.Rank() == 0 && (blocking == "barrier" || blocking == "allreduce" || blocking == "allgather")
					if share && !leads {
						err = errors.Join(err, check(sent == 0, "rank %d sent %d messages", w.Rank(), sent))
					}
					if share && w.Rank() == 2 && blocking != "bcast" {
						err = errors.Join(err, check(sent == 10, "rank %d sent %d messages, want one each time", w.Rank(), sent))
					}
					if !share && w.Rank() == 3 && blocking != "bcast" {
						err = errors.Join(err, check(sent >= 10, "rank %d sent %d messages, want at least one each time", w.Rank(), sent))
					}
					return err
				})
			})
		}
	}
}

// TestDeathOnTwoLevels: a rank dies before each of the messages that it sends, and wakes another rank, in a collective between
// nodes whose ranks share memory. The others get ErrProcFailed at the latest in the Barrier after it, and none waits for ever.
// Unless IBRUN_SOAK is set, the leader of the first node dies in short collectives only, the root and the lone rank in long ones
// only.
func TestDeathOnTwoLevels(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	const n = 5 // the last rank is alone on its node
	for name, call := range onTwoLevels {
		for length, victims := range map[int][]int{3: {0, 2, 3}, 20_000: {1, 2, 4}} {
			t.Run(fmt.Sprintf("%s of %d", name, length), func(t *testing.T) {
				for _, victim := range soaktest.Choose([]int{0, 1, 2, 3, 4}, victims) {
					at := 0
					for dieAtOn(t, mpitest.Options{Machine: pairedNodes}, n, victim, at,
						func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
							return func() (*mpi.Comm, error) {
								err := call(p.World(), length)
								if err == nil {
									err = p.World().Barrier()
								}
								return nil, err
							}, nil
						}) {
						at++
					}
				}
			})
		}
	}
}

// TestDeathInDirectPhase: the same for a broadcast that is copied directly from the leaders of nodes of three ranks.
func TestDeathInDirectPhase(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	const n = 6
	o := mpitest.Options{Machine: func(rank int) mpitest.Machine { return mpitest.Machine{Name: fmt.Sprint("node ", rank/3)} }}
	for victim := range n {
		at := 0
		for dieAtOn(t, o, n, victim, at, func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
			return func() (*mpi.Comm, error) {
				x := make([]int, 25_000)
				if p.World().Rank() == 1 {
					x[len(x)-1] = 5
				}
				err := wait(mpi.Ibcast(p.World(), x, 1))
				if err == nil {
					err = check(x[len(x)-1] == 5, "rank %d got %d", p.World().Rank(), x[len(x)-1])
				}
				if err == nil {
					err = p.World().Barrier()
				}
				return nil, err
			}, nil
		}) {
			at++
		}
	}
}

// TestDeathInTwoLevelSteps: the same for persistent calls, which use messages on both levels.
func TestDeathInTwoLevelSteps(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	const n = 4
	for name, create := range map[string]func(w *mpi.Comm) (mpi.Request, error){
		"Allreduce": func(w *mpi.Comm) (mpi.Request, error) {
			return mpi.AllreduceInit(w, make([]int, 500), make([]int, 500), mpi.Sum)
		},
		"Gather": func(w *mpi.Comm) (mpi.Request, error) { return mpi.GatherInit(w, make([]int, 8*n), make([]int, 8), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			for victim := range n {
				at := 0
				for dieAtOn(t, mpitest.Options{Machine: pairedNodes}, n, victim, at,
					func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
						r, err := create(p.World())
						return func() (*mpi.Comm, error) {
							err := r.Start()
							if err == nil {
								err = wait(r, nil)
							}
							if err == nil {
								err = p.World().Barrier()
							}
							return nil, errors.Join(err, r.Free())
						}, err
					}) {
					at++
				}
			}
		})
	}
}

// TestLeavesTwoLevels: a rank, which may be the leader of its node, ends without taking part. Every other rank gets
// ErrProcFailed.
func TestLeavesTwoLevels(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	const n = 5
	for name, call := range onTwoLevels {
		t.Run(name, func(t *testing.T) {
			for victim := range n {
				failures := &recorder{TB: t}
				mpitest.RunWith(failures, n, mpitest.Options{Machine: pairedNodes, Unchecked: true}, func(p *mpi.Process) error {
					if err := errors.Join(p.World().Barrier(), call(p.World(), 20_000)); err != nil {
						return err
					}
					if p.World().Rank() == victim {
						return errKilled
					}
					err := call(p.World(), 20_000)
					if err == nil {
						err = p.World().Barrier()
					}
					if !errors.Is(err, mpi.ErrProcFailed) {
						t.Errorf("rank %d ended: rank %d got %v", victim, p.World().Rank(), err)
					}
					return err
				})
				for _, err := range failures.all { // a deadlock is another failure
					if !errors.Is(err, errKilled) && !errors.Is(err, mpi.ErrProcFailed) {
						t.Errorf("rank %d ended: %v", victim, err)
					}
				}
			}
		})
	}
}

// TestManyOnTwoLevels: the slices of one call that are not combined are several collectives of a plan, of which the first one
// uses shared memory. An operation of the program uses messages.
func TestManyOnTwoLevels(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	mpitest.RunWith(t, 5, mpitest.Options{Machine: pairedNodes, Unchecked: true}, func(p *mpi.Process) error {
		w := p.World()
		err := w.Barrier()
		own := mpi.NewOp(true, func(dst, src []int) {
			for i := range dst {
				dst[i] += src[i]
			}
		})
		for _, op := range []mpi.Op{mpi.Sum, own} {
			src, dst := make([][]int, 6), make([][]int, 6)
			for i := range src {
				src[i], dst[i] = slices.Repeat([]int{i + w.Rank()}, 1+i*3000), make([]int, 1+i*3000)
			}
			err = errors.Join(err, wait(mpi.IallreduceMany(w, dst, src, op)))
			for i := range dst {
				for _, x := range dst[i] {
					if x != 5*i+10 {
						return errors.Join(err, fmt.Errorf("slice %d has %d", i, x))
					}
				}
			}
		}
		return err
	})
}

// TestMismatchOnTwoLevels: of two ranks of a node whose immediate collectives differ, in the root or the length, one finds it, in
// a later collective at the latest. All other ranks learn that it has failed.
func TestMismatchOnTwoLevels(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	for name, c := range map[string]struct {
		finds int // a rank
		want  mpi.Class
		text  string
		call  func(w *mpi.Comm, other bool) error
	}{
		"length": {2, mpi.ErrCount, "Ireduce of 32 bytes with root 0 (rank 2) against Ireduce of 24 bytes with root 0 (rank 3)",
			func(w *mpi.Comm, other bool) error {
				n := 3
				if other {
					n = 4
				}
				return wait(mpi.Ireduce(w, make([]int, n), make([]int, n), mpi.Sum, 0))
			}},
		"root": {3, mpi.ErrRoot, "Ibcast of 24 bytes with root 0 (rank 3) against Ibcast of 24 bytes with root 2 (rank 2)",
			func(w *mpi.Comm, other bool) error { // rank 2 is the leader of its node in both
				root := 0
				if other {
					root = 2
				}
				return wait(mpi.Ibcast(w, make([]int, 3), root))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			failures := &recorder{TB: t}
			mpitest.RunWith(failures, 4, mpitest.Options{Machine: pairedNodes, Unchecked: true}, func(p *mpi.Process) error {
				w := p.World()
				err := errors.Join(w.Barrier(), c.call(w, w.Rank() == 2))
				if err == nil {
					err = wait(w.Ibarrier())
				}
				if err == nil || w.Rank() == c.finds && (!strings.Contains(err.Error(), c.text) || !errors.Is(err, c.want)) {
					t.Errorf("rank %d got %v", w.Rank(), err)
				}
				return err
			})
			for _, err := range failures.all {
				if strings.Contains(err.Error(), "deadlock") {
					t.Error(err)
				}
			}
		})
	}
}

// TestLongBlockInIgather: the blocks of another node are too long, and arrive while the root waits for a rank of its own node.
// The root gets the error, and no rank waits for ever.
func TestLongBlockInIgather(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	const root, leader = 1, 2
	mpitest.RunWith(t, 4, mpitest.Options{Machine: pairedNodes, Unchecked: true}, func(p *mpi.Process) error {
		w, signal, n := p.World(), []int{0}, 3
		if w.Rank() >= leader {
			n = 4
		}
		err := w.Barrier()
		if w.Rank() == 0 {
			_, err1 := mpi.Recv(w, signal, root, 2)
			err = errors.Join(err, err1)
		}
		r, err1 := mpi.Igather(w, make([]int, 4*n), make([]int, n), root)
		err = errors.Join(err, err1)
		if w.Rank() == root { // the message of the leader comes after its blocks
			_, err1 = mpi.Recv(w, signal, leader, 1)
			err = errors.Join(err, err1, mpi.Send(w, signal, 0, 2))
		}
		_, err1 = r.Wait()
		switch w.Rank() {
		case root:
			return errors.Join(err, wantClass("Igather", err1, mpi.ErrTruncate))
		case leader:
			return errors.Join(err, err1, mpi.Send(w, signal, root, 1))
		}
		return err // others may learn that it has failed
	})
}

// TestGatherLeavesNoReceives: a rank of the root's node has ended, or sends a block of another length, so the Gather of the root
// fails. The blocks that another node sends later are not written to the buffer of the root, which may use it for something else.
func TestGatherLeavesNoReceives(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	for _, c := range []struct {
		share        bool
		length, more int // more elements in the block of the rank; 0: it has ended
	}{{true, 3, 0}, {true, 20_000, 0}, {false, 3, 0}, {false, 20_000, 0}, {false, 3, 1}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			failures := &recorder{TB: t}
			o := mpitest.Options{Machine: pairedNodes, Unchecked: true, Wrap: func(t fabric.Transport) fabric.Transport {
				return hook.Wrap(t, hook.Options{Share: c.share})
			}}
			mpitest.RunWith(failures, 4, o, func(p *mpi.Process) error { return gatherThatFails(t, p.World(), c.length, c.more) })
			for _, err := range failures.all {
				if c.more != 0 || !errors.Is(err, errKilled) && !errors.Is(err, mpi.ErrProcFailed) {
					t.Error(err)
				}
			}
		})
	}
}

// gatherThatFails is what each of four ranks does. Rank 0 sends more elements than the others; if more is 0, it ends.
func gatherThatFails(t *testing.T, w *mpi.Comm, length, more int) error {
	const root, leader = 1, 2
	dst, src, signal := make([]int, 4*length), make([]int, length), make([]int, 1)
	if err := mpi.Gather(w, dst, src, root); err != nil { // shares memory
		return err
	}
	var err error
	switch w.Rank() {
	case 0:
		if more == 0 {
			return errKilled
		}
		err = mpi.Gather(w, nil, make([]int, length+more), root)
	case root:
		if err = mpi.Gather(w, dst, src, root); err == nil {
			t.Error("the root got no error")
		}
		for i := range dst {
			dst[i] = -1
		}
		err = mpi.Send(w, signal, leader, 1)
		if err == nil {
			_, err = mpi.Recv(w, signal, leader, 2) // the blocks of its node are sent before
		}
		if i := slices.IndexFunc(dst, func(x int) bool { return x != -1 }); i >= 0 {
			t.Errorf("element %d was written after the Gather", i)
		}
		return err
	case leader:
		if _, err = mpi.Recv(w, signal, root, 1); err != nil {
			return err
		}
		if err = mpi.Gather(w, nil, src, root); err == nil || errors.Is(err, mpi.ErrProcFailed) {
			err = mpi.Send(w, signal, root, 2)
		}
	default:
		err = mpi.Gather(w, nil, src, root)
	}
	return err
}
