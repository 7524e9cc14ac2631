package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/hw"
)

// A process inherits the PU mask and the memory policy of the thread that starts it. So the agent binds its own thread as a
// rank is to be bound, starts the rank, and restores the thread after the last one. The rank needs no code for it, and its
// runtime sees the right number of processors from its first instruction.

// initBinding finds out what there is to lend. A memory policy that is there already is the user's, by numactl, and stays.
func (a *agent) initBinding() (err error) {
	if a.allowedPUs, err = hw.Affinity(); err != nil {
		return err
	}
	if !slices.ContainsFunc(a.task.Ranks, func(r protocol.RankTask) bool { return r.Memory != nil }) {
		return nil
	}
	set, err := hw.HasMemoryPolicy()
	if err != nil {
		a.noteNoMemoryPolicy(err)
		return nil
	}
	a.setMemory = !set
	return nil
}

// bindThread makes the calling thread, which is locked, what a rank is to be.
func (a *agent) bindThread(r *protocol.RankTask) error {
	pus := r.PUs
	if pus == nil {
		pus = a.allowedPUs // the rank before may have been bound
	}
	if err := hw.Bind(pus); err != nil {
		return err
	}
	if !a.setMemory {
		return nil
	}
	err := hw.PreferMemory(r.Memory)
	if err == nil {
		return nil
	}
	a.setMemory = false
	a.noteNoMemoryPolicy(err)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return nil // then the rank before had none either
	}
	return hw.PreferMemory(nil) // and not what the rank before had
}

// unbindThread ends what lend has done.
func (a *agent) unbindThread() {
	err := hw.Bind(a.allowedPUs)
	if a.setMemory && err == nil {
		err = hw.PreferMemory(nil)
	}
	if err != nil {
		a.send(&protocol.Event{Kind: protocol.EventNote, Rank: -1, Text: err.Error()})
	}
}

// noteNoMemoryPolicy tells that ranks do without a memory policy.
func (a *agent) noteNoMemoryPolicy(why error) {
	a.send(&protocol.Event{Kind: protocol.EventNote, Rank: -1,
		Text: fmt.Sprintf("ranks take memory where the kernel gives it, which is usually near "+
			"(a container needs --cap-add SYS_NICE for more): %v", why)})
}
